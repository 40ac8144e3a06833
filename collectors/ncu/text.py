"""ncu's text as CSV tables, their complete rows, and log lines.

A file may hold several tables, with log lines and program output before, between and after. A row is complete if it
has its closing quotes and the fields of its table.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from collectors import text_of, wide
from collectors.errors import CollectError

_HEADER = b'"ID","Process ID","Process Name",'
_BARE_HEADER = re.compile(rb'"?ID"?,"?Process ID"?,"?Process Name"?,')
_SUMMED = re.compile(rb'"(?:Process ID|Domain)",(?:"[^"]*",)*"Invocations",')
"""Header of a summary, with one row per metric of all launches of a kernel."""
_FIRST_CELL = re.compile(rb'"[^"]*","')
_GLUED = re.compile(rb'"\d+","\d+",')
_LOG_LIMIT = 1 << 20
LONGEST = 1 << 17
"""Most bytes examined of a line that is no row."""

DAMAGED = "a row is damaged, or another program wrote the file again: export it again"
RAW, DETAILS, SUMMARY = "raw", "details", "summary"
_NEEDED = {
    RAW: ("Kernel Name",),
    DETAILS: ("Kernel Name", "Metric Name", "Metric Unit", "Metric Value"),
    SUMMARY: ("Kernel Name", "Invocations", "Metric Name", "Metric Unit", "Average"),
}
"""Columns of every page of a kind, in every version."""


@dataclass
class Table:
    """One CSV table: its header and its first line number (from 1)."""

    header: list[str]
    line: int
    quoted: bool = True
    page: str = field(init=False)

    def __post_init__(self) -> None:
        self.page = RAW if "Metric Name" not in self.header else SUMMARY if "Invocations" in self.header else DETAILS

    @property
    def least(self) -> int:
        """Fewest fields of a row: metric rows of the details page end after the value."""
        return self.header.index("Metric Value") + 1 if self.page == DETAILS else len(self.header)

    def fits(self, line: bytes) -> bool:
        """Whether a line is certainly a complete row of a raw page, every cell quoted."""
        return (
            self.page == RAW
            and line.count(b'","') == len(self.header) - 1
            and line[-1:] == b'"'
            and line.count(b'"') % 2 == 0
            and (line[:2] == b'""' or line[1:2].isdigit())
        )


@dataclass
class Row:
    """A complete row: bytes without line end, table, line number; in a text page its cells."""

    data: bytes
    table: Table
    line: int
    cells: list[str] | None = None

    def fields(self) -> list[str]:
        """The row's cells."""
        return split(self.data) if self.cells is None else self.cells


@dataclass
class Scan:
    """Scan of a file: rows, log text, tables, and the position of a cut."""

    path: Path
    partial: bool = False
    log: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    broken: str = ""
    rows: int = 0
    _logged: int = 0

    @property
    def text(self) -> str:
        """The log lines, as one text."""
        return "\n".join(self.log)

    def note(self, line: bytes) -> None:
        """Keep a line that is no row, up to a limit; tagged lines always."""
        line = line[:LONGEST]
        if not line.strip():
            return
        if self._logged < _LOG_LIMIT or line.startswith((b"==ERROR==", b"==WARNING==")):
            self._logged += len(line)
            self.log.append(line.decode("utf-8", errors="replace"))

    def stop(self, line: int, why: str) -> None:
        """Record that the file is cut here; raises CollectError unless reading is partial."""
        message = f"line {line}: {why}"
        if not self.partial:
            raise CollectError(
                f"{self.path}, {message}",
                fix="copy or export the file again, or delete everything after the last complete row",
            )
        self.broken = message

    def __iter__(self) -> Iterator[Row]:
        """The complete rows of the file in order; fills the other attributes on the way."""
        table: Table | None = None
        lines = enumerate(physical_lines(self.path), 1)
        for number, physical in lines:
            line, ended = _chomp(physical)
            if b"\0" in line:
                return self.stop(number, "NUL bytes: the file was not written to its end")
            if table is not None and ended and table.fits(line):
                self.rows += 1
                yield Row(line, table, number)
                continue
            if _FIRST_CELL.match(line) and line.count(b'"') % 2:
                line, ended, swallowed = _join(physical, lines)
                if swallowed and table is not None:
                    return self.stop(number, "a quote is missing here, so that this row runs into those after it")
            begin = _header(line)
            if begin is not None:
                self.note(line[:begin])
                table = Table(split(line[begin:]), number, quoted=line[begin : begin + 1] == b'"')
                if not ended:
                    return self.stop(number, "the header is cut")
                if lost := [name for name in _NEEDED[table.page] if name not in table.header]:
                    return self.stop(number, f"the header has no column {lost[0]}")
                self.tables.append(table)
                continue
            data = self._row(line, table) if table else None
            if table is None or data is None:
                if table is not None and _remains(line, table, ended):
                    return self.stop(number, "a row is broken" if ended else "the last row is cut")
                self.note(line)
                continue
            why = _defect(data, table, ended)
            if why:
                return self.stop(number, why if ended else f"the last row is cut ({why})")
            self.rows += 1
            yield Row(data, table, number)

    def _row(self, line: bytes, table: Table) -> bytes | None:
        """The row in a line, None if it holds none; output without a line end may come before it."""
        if line.startswith(b"=="):
            return None
        if table.page == SUMMARY:
            return line if line.startswith(b'"') and b'","' in line else None
        if not table.quoted:
            return line if (line[:1].isdigit() and b"," in line) or line.startswith(b",,") else None
        if line.startswith(b'"'):
            return line if line.startswith(b'"",') or _GLUED.match(line) else None
        glued = _GLUED.search(line)
        if not glued:
            return None
        self.note(line[: glued.start()])
        return line[glued.start() :]


def split(data: bytes) -> list[str]:
    """Cells of one CSV record; [] for unclosed quotes."""
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8", errors="replace"), newline=""), strict=True))
    except csv.Error:
        return []
    return rows[0] if len(rows) == 1 else []


def _remains(line: bytes, table: Table, ended: bool) -> bool:
    """Whether a line looks like a part of a row."""
    return (not ended and line.startswith(b'"')) or line.count(b'","') >= max(4, len(table.header) // 2)


def _defect(data: bytes, table: Table, ended: bool) -> str:
    """Why a row is incomplete; "" if it is complete."""
    columns = len(table.header)
    cells = split(data)
    if not cells or data.count(b'"') % 2:
        return "the quotes do not close"
    whole = table.least <= len(cells) <= columns
    if whole and b"\n" in data and table.page != DETAILS:
        broken = [name for name, cell in zip(table.header, cells, strict=True) if "\n" in cell and "Range" not in name]
        if broken:
            return f"field {broken[0]} breaks over lines"
    if whole and not ended and not _closed(data, cells, table):
        return "no end of line closes it: if only that was lost, add it"
    return "" if whole else f"{len(cells)} fields where the header has {columns}"


def _closed(data: bytes, cells: list[str], table: Table) -> bool:
    """Whether a row without line end has its last cell; without quotes it may lack digits."""
    if table.page == DETAILS and not cells[table.header.index("Metric Name")]:
        # A rule's row may end in text, where a doubled quote that is cut looks like the closing one.
        return False
    if data.endswith(b'"'):
        return len(cells) in (table.least, len(table.header))
    return table.page == DETAILS and data.endswith(b",") and len(cells) == table.least + 1


def _header(line: bytes) -> int | None:
    """Position of a header in a line, None without one."""
    if b"Process ID" not in line and b'"Invocations"' not in line:
        return None
    if _BARE_HEADER.match(line) or _SUMMED.match(line):
        return 0
    place = line.find(_HEADER)
    return place if place >= 0 else None


def _join(first: bytes, following: Iterator[tuple[int, bytes]]) -> tuple[bytes, bool, bool]:
    """(joined lines of an open quote, whether the last is complete, whether a row is lost)."""
    parts = [first]
    for _, line in following:
        parts.append(line)
        if line.count(b'"') % 2:
            return *_chomp(b"".join(parts)), any(map(_GLUED.match, parts[1:]))
    return first.rstrip(b"\r\n"), False, len(parts) > 1


def _chomp(line: bytes) -> tuple[bytes, bool]:
    if line.endswith(b"\r\n"):
        return line[:-2], True
    return (line[:-1], True) if line.endswith(b"\n") else (line, False)


def physical_lines(path: Path) -> Iterator[bytes]:
    """The file's lines as UTF-8 without byte order mark, from any encoding."""
    with path.open("rb") as file:
        mark = file.read(4)
        if wide(mark):
            yield from (line.encode() for line in io.StringIO(text_of(path), newline=""))
            return
        file.seek(3 if mark.startswith(codecs.BOM_UTF8) else 0)
        yield from file
