"""Split `nsys stats` output into its tables: an export file, or stdout with several.

CSV and aligned text with its ruler of dashes, other lines before, between and after the tables.
"""

from __future__ import annotations

import csv
import mmap
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from collectors import text_of, wide
from collectors.errors import CollectError
from collectors.rows import printed, ruler

_BLOCK = 1 << 20
_BETWEEN = re.compile(
    rb"\n(?!\d)(?=\r?\n|\xef\xbb\xbf| *```| *~~~|</|Processing \[|SKIPPED:|ERROR:|Generating |Exporting |\[\d+/\d+\] | ?\*\* |==\d+==)"
)
_TITLED = re.compile(
    r"^[A-Z][\w /]+ Statistics.*\((nanoseconds|microseconds|milliseconds|seconds|bytes|B|[KMG]i?B)\)\s*$"
)
_WORDS = {"nanoseconds": "ns", "microseconds": "us", "milliseconds": "ms", "seconds": "s", "bytes": "B"}


@dataclass(frozen=True)
class Table:
    """A table of an export: bytes [start, end), `line` of its first row, `unit` of its title.

    ends: of the columns of an aligned table; () for CSV.
    """

    header: tuple[str, ...]
    start: int
    end: int
    line: int
    ends: tuple[int, ...] = ()
    unit: str = ""


@dataclass
class Export:
    """Bytes of an export, and the results of `scan`."""

    path: Path
    data: bytes | mmap.mmap
    tables: list[Table] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    errors: list[tuple[int, str]] = field(default_factory=list)
    unfinished: str = ""


def scan(path: Path, recognise: Callable[[tuple[str, ...]], object]) -> Export:
    """Find tables with a header that `recognise` knows, SKIPPED and ERROR lines.

    Raises CollectError for an empty file or binary data.
    """
    export = Export(path, _content(path))
    data = export.data
    position, line, previous, unit = 0, 1, "", ""
    while position < len(data):
        stop = data.find(b"\n", position)
        end = len(data) if stop < 0 else stop + 1
        text = data[position:end].decode("utf-8", errors="replace").rstrip("\r\n").lstrip("\ufeff")
        if title := _TITLED.match(text):
            unit = _WORDS.get(title[1], title[1])
        header, ends = header_of(text, previous)
        position, previous, line = end, text, line + 1
        if stop >= 0 and header and recognise(header):
            table = Table(header, end, end, line, ends, unit)
            table = replace(table, end=_end(data, table))
            export.tables.append(table)
            position, previous, unit = table.end, "", ""
            line += data[table.start : table.end].count(b"\n") if position < len(data) else 0
        elif text.startswith("SKIPPED:"):
            export.skipped.append(text.removeprefix("SKIPPED:").strip())
        elif text.startswith("ERROR:"):
            export.errors.append((line - 1, text.removeprefix("ERROR:").strip()))
        elif stop < 0:
            export.unfinished = text.strip()
    return export


def header_of(text: str, previous: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Titles and column ends if a line completes a table's head; else ()."""
    if ends := ruler(text):
        return tuple(printed(previous, ends)), ends
    if "," not in text or len(text) > 4096:
        return (), ()
    try:
        return tuple(cell.strip() for cell in next(csv.reader([text], strict=True))), ()
    except (csv.Error, StopIteration):
        return (), ()


def whole_end(export: Export, table: Table) -> int:
    """Offset after the last row with a newline, or with a memory operation's closing bracket."""
    last = max(export.data.rfind(b"\n", table.start, table.end) + 1, table.start)
    tail = export.data[last : table.end].strip()
    # The name of a memory operation closes itself, so a row that ends in it lost nothing but its newline.
    complete = not tail or (tail.endswith(b"]") and tail.rpartition(b",")[2].startswith(b"[CUDA mem"))
    return table.end if complete else last


def _content(path: Path) -> bytes | mmap.mmap:
    with path.open("rb") as file:
        head = file.read(4096)
        if not head.strip(b"\x00\r\n\t \xef\xbb\xbf\xff\xfe"):
            raise CollectError(
                f"{path} is empty",
                fix="the capture has no such data; check the output of `nsys stats`",
            )
        if wide(head):
            return text_of(path, strict=True).encode()
        if b"\x00" in head:
            raise CollectError(f"{path}: holds binary data, not text", fix="give the CSV or the sqlite export")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _end(data: bytes | mmap.mmap, table: Table) -> int:
    """End of a table: a blank line, the next report's first line, or the file's end."""
    between = (found.start() + 1 for found in _BETWEEN.finditer(data, table.start - 1))
    return next((at for at in between if not _goes_on(data, table, at)), len(data))


def _goes_on(data: bytes | mmap.mmap, table: Table, at: int) -> bool:
    """Whether a blank line at `at` is inside a CSV table, with another row after it."""
    after = data[at : at + _BLOCK].decode("utf-8", errors="replace")
    if table.ends or not after.startswith(("\n", "\r\n")):
        return False
    cells, _ = header_of(next((line for line in after.splitlines() if line.strip()), ""), "")
    return len(cells) == len(table.header) and any(cell.isdecimal() for cell in cells)
