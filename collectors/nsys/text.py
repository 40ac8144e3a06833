"""Output of `nsys stats` cut into its tables: an export file, or a stdout of several.

UTF-8 and UTF-16, byte order marks, lines between reports, CSV and aligned text with its ruler of dashes.
"""

from __future__ import annotations

import csv
import io
import mmap
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from collectors import wide
from collectors.errors import CollectError, uneven

Recognise = Callable[[tuple[str, ...]], bool]
Progress = Callable[[int, int], None]

_BLOCK = 1 << 20
_BETWEEN = re.compile(
    rb"\n(?=\r?\n|\xef\xbb\xbf| *```| *~~~|</|Processing \[|SKIPPED:|ERROR:|Generating |Exporting |\[\d+/\d+\] | ?\*\* |==\d+==)"
)
_RULER = re.compile(r"^ *-{2,}(?: +-{2,})+ *$")
_TITLED = re.compile(
    r"^[A-Z][\w /]+ Statistics.*\((nanoseconds|microseconds|milliseconds|seconds|bytes|B|[KMG]i?B)\)\s*$"
)
_WORDS = {"nanoseconds": "ns", "microseconds": "us", "milliseconds": "ms", "seconds": "s", "bytes": "B"}


@dataclass(frozen=True)
class Table:
    """A table of an export: bytes [start, end), `line` of its first row, `unit` of its title."""

    header: tuple[str, ...]
    start: int
    end: int
    line: int
    spans: tuple[tuple[int, int], ...] = ()
    unit: str = ""


@dataclass
class Export:
    """An open export: its bytes (mapped, never read whole) and its tables."""

    path: Path
    data: mmap.mmap
    handle: IO[bytes]
    tables: list[Table] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    errors: list[tuple[int, str]] = field(default_factory=list)
    unfinished: str = ""
    progress: Progress | None = None
    """Called with (bytes done, bytes in all) while a table is read."""

    def __enter__(self) -> Export:
        return self

    def __exit__(self, *_: object) -> None:
        self.data.close()
        self.handle.close()


class Slice(io.RawIOBase):
    """The bytes [start, end) of an export as a stream that counts its commas and newlines."""

    def __init__(self, export: Export, start: int, end: int) -> None:
        super().__init__()
        self._export, self._at, self._end = export, start, end
        self.commas = 0
        self.newlines = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer`; returns the number of bytes, 0 at the end."""
        room = memoryview(buffer)[: self._end - self._at]
        size = os.preadv(self._export.handle.fileno(), [room], self._at) if room else 0
        view = np.frombuffer(room, np.uint8, size)
        self.commas += int(np.count_nonzero(view == ord(",")))
        self.newlines += int(np.count_nonzero(view == ord("\n")))
        self._at += size
        if self._export.progress is not None:
            self._export.progress(min(self._at, len(self._export.data)), len(self._export.data))
        return size


def stream(export: Export, start: int, end: int) -> io.TextIOWrapper:
    """The bytes [start, end) as UTF-8 text, newlines untouched."""
    raw = Slice(export, start, end)
    return io.TextIOWrapper(io.BufferedReader(raw, _BLOCK), encoding="utf-8", newline="", errors="strict")


def open_export(path: str | Path) -> Export:
    """Map an export and find nothing yet; UTF-16 is turned into UTF-8 in a temporary file.

    Raises CollectError for a missing or empty file and for bytes that are no text.
    """
    path = Path(path)
    try:
        handle = path.open("rb")
    except OSError as error:
        raise CollectError(f"{path}: cannot be opened: {error.strerror}", fix="check the path") from error
    head = handle.read(4096)
    try:
        _check_head(path, head)
        if not wide(head):
            return Export(path, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ), handle)
    except CollectError:
        handle.close()
        raise
    handle.close()
    return _transcoded(path, wide(head))


def scan(export: Export, recognise: Recognise) -> Export:
    """Fill in the tables with a header that `recognise` knows, SKIPPED and ERROR lines."""
    position, line, previous, unit = 3 if export.data[:3] == b"\xef\xbb\xbf" else 0, 1, "", ""
    while position < len(export.data):
        stop = export.data.find(b"\n", position)
        end = len(export.data) if stop < 0 else stop + 1
        text = export.data[position:end].decode("utf-8", errors="replace").rstrip("\r\n").lstrip("\ufeff")
        if title := _TITLED.match(text):
            unit = _WORDS.get(title[1], title[1])
        table = _table(text, previous, end, line + 1, recognise) if stop >= 0 else None
        if table is None:
            _note(export, text, line)
            export.unfinished = text.strip() if stop < 0 else ""
            previous, position, line = text, end, line + 1
            continue
        table, unit = _closed(export, replace(table, unit=unit)), ""
        export.tables.append(table)
        if table.end == len(export.data):
            break
        line += 1 + _newlines(export.data, table.start, table.end)
        position, previous = table.end, ""
    return export


def rows(export: Export, table: Table) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table as text with their line numbers; raises CollectError on a broken row."""
    text = stream(export, table.start, table.end)
    reader = csv.reader(text, strict=True)
    try:
        if table.spans:
            yield from _aligned(export, table, text)
            return
        line = table.line
        for row in reader:
            if row:
                _check_width(export, table, line, row)
                yield line, row
            line = table.line + reader.line_num
    except csv.Error as error:
        raise CollectError(
            f"{export.path}, line {table.line + reader.line_num - 1}: not CSV: {error}",
            fix="export the report again",
        ) from error
    except UnicodeDecodeError as error:
        raise CollectError(
            f"{export.path}, after line {table.line}: not UTF-8: {error.reason}",
            fix="export the report again",
        ) from error


def whole_end(export: Export, table: Table) -> int:
    """Offset past the last row that ends in a newline (or in the bracket of a memory operation)."""
    last = export.data.rfind(b"\n", table.start, table.end) + 1
    last = max(last, table.start)
    tail = export.data[last : table.end].strip()
    # The name of a memory operation closes itself, so a row that ends in it lost nothing but its newline.
    complete = not tail or (tail.endswith(b"]") and tail.rpartition(b",")[2].startswith(b"[CUDA mem"))
    return table.end if complete else last


def _check_head(path: Path, head: bytes) -> None:
    if not head.strip(b"\x00\r\n\t \xef\xbb\xbf\xff\xfe"):
        raise CollectError(
            f"{path} is empty: nothing was written into it",
            fix="`nsys stats` writes such a file when the capture holds no such data; look at what it printed",
        )
    if not wide(head) and b"\x00" in head:
        raise CollectError(f"{path}: holds binary data, not text", fix="give the CSV or the sqlite export")


def _transcoded(path: Path, encoding: str) -> Export:
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - the Export closes it
    try:
        with path.open("r", encoding=encoding, newline="") as text:
            while block := text.read(_BLOCK):
                spool.write(block.encode("utf-8"))
    except (UnicodeError, OSError) as error:
        spool.close()
        raise CollectError(
            f"{path}: starts as {encoding} but cannot be decoded: {error}",
            fix="the file was cut or mixed; save the export again as UTF-8",
        ) from error
    spool.flush()
    return Export(path, mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ), spool)


def _note(export: Export, text: str, line: int) -> None:
    if text.startswith("SKIPPED:"):
        export.skipped.append(text.removeprefix("SKIPPED:").strip())
    elif text.startswith("ERROR:"):
        export.errors.append((line, text.removeprefix("ERROR:").strip()))


def split_header(text: str) -> tuple[str, ...]:
    """The cells of a line that may be a CSV header, () when it is none."""
    if "," not in text or len(text) > 4096:
        return ()
    try:
        return tuple(cell.strip() for cell in next(csv.reader([text], strict=True)))
    except (csv.Error, StopIteration):
        return ()


def ruled_header(text: str, previous: str) -> tuple[str, ...]:
    """The cells of the line before a ruler of dashes, () when `text` is no ruler."""
    return tuple(previous[left:right].strip() for left, right in _spans(text))


def _spans(text: str) -> list[tuple[int, int]]:
    if not _RULER.match(text):
        return []
    spans = [match.span() for match in re.finditer("-+", text)]
    return [*spans[:-1], (spans[-1][0], 1 << 30)]


def _table(text: str, previous: str, start: int, line: int, recognise: Recognise) -> Table | None:
    header = split_header(text)
    if header and recognise(header):
        return Table(header, start, start, line)
    header = ruled_header(text, previous)
    if header and recognise(header):
        return Table(header, start, start, line, tuple(_spans(text)))
    return None


def _closed(export: Export, table: Table) -> Table:
    """The table with its end: a blank line, the next report's first line, or the file's end."""
    data, end = export.data, len(export.data)
    for found in _BETWEEN.finditer(data, table.start - 1):
        if not _goes_on(data, table, found.start() + 1):
            end = found.start() + 1
            break
    # Pages that were looked at count as this process's memory until they are given back.
    data.madvise(mmap.MADV_DONTNEED)
    return replace(table, end=max(end, table.start))


def _goes_on(data: mmap.mmap, table: Table, at: int) -> bool:
    """Whether a blank line at `at` stands inside a CSV table: one more row follows."""
    after = data[at : at + _BLOCK].decode("utf-8", errors="replace")
    if table.spans or not after.startswith(("\n", "\r\n")):
        return False
    cells = split_header(next((line for line in after.splitlines() if line.strip()), ""))
    return len(cells) == len(table.header) and any(cell.isdecimal() for cell in cells)


def _newlines(data: mmap.mmap, start: int, end: int) -> int:
    return sum(data[at : min(at + _BLOCK, end)].count(b"\n") for at in range(start, end, _BLOCK))


def _aligned(export: Export, table: Table, lines: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
    for number, text in enumerate(lines, start=table.line):
        body = text.rstrip("\r\n")
        gaps = [(left[1], right[0]) for left, right in zip(table.spans, table.spans[1:], strict=False)]
        if any(body[left:right].strip() for left, right in gaps):
            raise CollectError(
                f"{export.path}, line {number}: a cell is wider than its column",
                fix="export with `nsys stats -f csv`",
            )
        if body.strip():
            yield number, [body[left:right].strip() for left, right in table.spans]


def _check_width(export: Export, table: Table, line: int, row: list[str]) -> None:
    if len(row) != len(table.header):
        expected = f"{len(table.header)} ({table.header[0]} ... {table.header[-1]})"
        raise uneven(export.path, line, len(row), expected)
