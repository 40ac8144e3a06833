"""Words that others wrote (names of kernels and files, reasons, output of programs) as they may be shown.

A terminal obeys control characters, a reader is deceived by those that turn the direction of writing or show nothing, and
a new line begins another statement. Each of them is shown as its code instead: \\x1b, \\u202e, \\n.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

_UNSEEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
_IN_LINES = re.compile(f"[{_UNSEEN}]")
_IN_LINE = re.compile(f"[{_UNSEEN}\t\n]")
_LINES = frozenset({"tail"})
"""Fields of a manifest that hold several lines."""

T = TypeVar("T")


def lines(text: str) -> str:
    """Text of several lines, tabs and line ends as they are."""
    return _IN_LINES.sub(_code, text)


def line(text: str) -> str:
    """Text that is one line: a name, a reason."""
    return _IN_LINE.sub(_code, text)


def _code(found: re.Match[str]) -> str:
    number = ord(found[0])
    short = {9: "\\t", 10: "\\n", 13: "\\r"}
    return short.get(number) or (
        f"\\x{number:02x}" if number < 1 << 8 else f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"
    )


def struct(found: T) -> T:
    """A msgspec struct with every text in it harmless; itself where nothing was to be done."""
    import msgspec  # start-up does without it

    plain = msgspec.to_builtins(found)
    clean = _cleaned(plain)
    return found if clean == plain else msgspec.convert(clean, type(found))


def _cleaned(found: Any, field: str = "") -> Any:
    if isinstance(found, str):
        return lines(found) if field in _LINES else line(found)
    if isinstance(found, dict):
        return {_cleaned(key): _cleaned(value, str(key)) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [_cleaned(one, field) for one in found]
    return found
