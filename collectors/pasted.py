"""Exports that were copied out of a terminal, a mail or the log of a build: what stands about their lines is taken off.

Colours (ESC [ ... m, and K, which grep adds), `>` before quoted lines, the time before every line of a build's log, and two bytes
a letter without the mark that says so. Lines keep their number, and nothing of what the tool wrote is touched.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

_COLOUR = re.compile(r"\x1b\[[0-9;:]*[mK]")
_QUOTE = re.compile(r"[ \t]?>(?:[ \t]?>)*")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)(?=[ \t]|\r?$)")


def wide(head: bytes) -> str:
    """The encoding of text of two bytes a letter by its first bytes, with or without a mark; "" of any other."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if len(head) > 3 and head[1:4:2] == b"\0\0" and head[0]:
        return "utf-16-le"
    return "utf-16-be" if len(head) > 3 and head[:3:2] == b"\0\0" and head[1] else ""


def plain(text: str) -> str:
    """The text as the tool wrote it; itself where nothing stands about its lines."""
    found = _COLOUR.sub("", text) if "\x1b[" in text else text
    lines = found.split("\n")
    for pattern, least in ((_QUOTE, 0.5), (_STAMP, 1.0)):
        if _share(pattern, lines) >= least:
            lines = _without(pattern, lines)
            found = "\n".join(lines)
    return found


def _without(pattern: re.Pattern[str], lines: Sequence[str]) -> list[str]:
    """The lines without what fits at their beginning, and without the blank behind it where all of them have one."""
    ends = [fits.end() if (fits := pattern.match(line)) else None for line in lines]
    at = [number for number, end in enumerate(ends) if end is not None]
    rests = [line[end:] for line, end in zip(lines, ends, strict=True) if end is not None and line[end:].strip()]
    blank = int(all(rest[0] in " \t" for rest in rests))
    # Before the first and behind the last of them are somebody's words.
    return [
        line[end + blank :] if end is not None else line if at[0] < number < at[-1] else ""
        for number, (line, end) in enumerate(zip(lines, ends, strict=True))
    ]


def _share(pattern: re.Pattern[str], lines: Sequence[str]) -> float:
    """Of the lines that are not empty those that begin so."""
    filled = [line for line in lines if line.strip()]
    fitting = sum(pattern.match(line) is not None for line in filled)
    return fitting / len(filled) if filled else 0.0
