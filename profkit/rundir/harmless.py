r"""Escape foreign text (kernel names, reasons, output) for display.

Control characters act on a terminal, bidirectional and invisible characters deceive the reader, and a newline begins
another statement. Each is shown as its code: \x1b, \u202e, \n. Text that looks like a command to a CI system gets a
space.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TextIO, TypeVar

_UNSEEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
_IN_LINES = re.compile(f"[{_UNSEEN}]")
_IN_LINE = re.compile(f"[{_UNSEEN}\t\n]")
_ON_SCREEN = re.compile(f"(\x1b\\[(?:[0134]|2[2-4]|[349][0-79])m)|[{_UNSEEN}]")
"""Escape sequences of click.style, which stay, and control characters, which are escaped."""
_COMMAND = re.compile(r"(?m)^[^\S\n]*:(?=:\s*[A-Za-z])|#(?=#\w*\[)")
"""Commands to a CI system that reads the log: a line that begins with ::error::, and ##[error], ##vso[...],
##teamcity[...] in it.
"""
_LINES = frozenset({"tail"})
"""Manifest fields with several lines."""

T = TypeVar("T")


def lines(text: str) -> str:
    """Escape multi-line text; tabs and line ends stay."""
    return _COMMAND.sub(r"\g<0> ", _IN_LINES.sub(_code, text))


@lru_cache(maxsize=1 << 14)
def line(text: str) -> str:
    """Escape single-line text: a name, a reason."""
    return _COMMAND.sub(r"\g<0> ", _IN_LINE.sub(_code, text))


class Screen:
    """Terminal stream that shows control characters as codes."""

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)

    def write(self, text: str) -> int:
        """Write `text` escaped to the stream below; returns its number of characters."""
        self.beneath.write(_ON_SCREEN.sub(lambda found: found[1] or _code(found), text))
        return len(text)


@contextlib.contextmanager
def screens() -> Iterator[None]:
    """Wrap standard streams that are terminals in Screens."""
    kept = sys.stdout, sys.stderr
    with contextlib.suppress(ValueError, AttributeError):  # closed, or none
        sys.stdout, sys.stderr = (Screen(one) if one.isatty() else one for one in kept)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = kept


def beneath(stream: TextIO) -> TextIO:
    """The terminal below the Screens, for callers that escape foreign text themselves."""
    return stream.beneath if isinstance(stream, Screen) else stream


def _code(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def struct(found: T) -> T:
    """A msgspec struct with all its texts escaped; the same object if nothing changed."""
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
