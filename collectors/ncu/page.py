"""ncu's text page, as it stands on a terminal and in course notes: launches, and under each its sections' tables.

    kernel(int) (16, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
      Section: GPU Speed Of Light Throughput
      ------------------- ------------- ------------
      Metric Name           Metric Unit Metric Value
      ------------------- ------------- ------------
      Duration                  usecond        14.46
      ------------------- ------------- ------------

The details page and the raw page look alike; each row becomes one of the details page's CSV.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from collectors.ncu.text import LONGEST, Row, Scan, Table, physical_lines

_HEADER = [
    *("ID", "Process ID", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC"),
    *("Section Name", "Metric Name", "Metric Unit", "Metric Value"),
]
_PROCESS = re.compile(r"\[(\d+)\] \S+@\S+\s*$")
LAUNCH = re.compile(
    r"^[ \t]*(?P<kernel>\S.*?)(?: (?P<grid>\([\d, ]+\))x(?P<block>\([\d, ]+\)))?(?:, \d{4}-\w{3}-\d\d [\d:]+)?"
    r", Context (?P<context>\d+), Stream (?P<stream>\d+)(?:, Device (?P<device>\d+), CC (?P<cc>[\d.]+))?\s*$",
    re.MULTILINE,
)
_SECTION = re.compile(r"^\s+Section: (.+?)\s*$")
_RULER = re.compile(r"^\s*-{3,}(?: +-{3,}){2}\s*$")


@dataclass
class _Table:
    """An open table: where its columns are, whether a line of titles told three rulers apart from two, and whether
    the titles are those of metrics (rules print tables of their own).
    """

    spans: list[tuple[int, int]]
    rulers: int = 1
    titled: bool = False
    metrics: bool = True

    def cells(self, text: str) -> list[str]:
        first, second = self.spans[0][1], self.spans[1][1]
        return [text[:first].strip(), text[first:second].strip(), text[second:].strip()]

    def closed(self) -> bool:
        """Whether one more ruler closes the table."""
        self.rulers += 1
        return self.rulers == (3 if self.titled else 2)


def rows(scan: Scan) -> Iterator[Row]:
    """The metrics of a text page as rows of a details table; none where it is no such page.

    A file that ends inside a table breaks off there: refused, unless a partial reading was asked for (Scan.stop). What the
    page alone tells of itself is left in the scan: a section twice under one launch, a process told twice.
    """
    page = Table(_HEADER, 1)
    process, section, number, line = "", "", -1, 0
    sections: set[str] = set()
    # What the page shows of each process, as often as it begins with one: the launches counted from there.
    told: list[list[tuple[int | str, ...]]] = [[]]
    first = 0
    launch: re.Match[str] | None = None
    table: _Table | None = None
    for line, data in enumerate(physical_lines(scan.path), 1):
        text = data[:LONGEST].decode("utf-8", errors="replace").rstrip("\r\n")
        if _RULER.match(text):
            if table is None:
                table = _Table([match.span() for match in re.finditer("-+", text)])
            elif table.closed():
                table = None
            continue
        found, named = LAUNCH.match(text), _SECTION.match(text)
        if table is not None and (found or named or not text.strip()):
            return scan.stop(line, "a table is not closed")
        if found:
            launch, number, section = found, number + 1, ""
            sections.clear()
        elif named:
            section = named[1]
            scan.unnamed += launch is not None and section in sections
            sections.add(section)
        elif table is None:
            if of := _PROCESS.match(text.strip()):
                process, first = of[1], number + 1
                told.append([])
        elif text.strip().startswith("Metric Name"):
            table.titled, table.metrics = True, text.split() == " ".join(_HEADER[-3:]).split()
        elif table.metrics and (cells := table.cells(text))[2]:
            if launch is None:
                scan.headless += 1
            else:
                told[-1].append((number - first, process, launch[0], section, *cells))
                yield Row(_row(number, process, launch, section, cells), page, line)
    scan.twice = sum(len({at for at, *_ in one}) for place, one in enumerate(told) if one in told[:place])
    if table is not None:
        scan.stop(line, "a table is not closed")
    return None


def _row(number: int, process: str, launch: re.Match[str], section: str, cells: list[str]) -> bytes:
    who = [launch[key] or "" for key in ("kernel", "context", "stream", "block", "grid", "device", "cc")]
    if who[0].startswith("unnamed>"):
        who[0] = f"<{who[0]}"  # ncu prints "<unnamed>::f" so, where no type stands before it.
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="").writerow([number, process, *who, section, *cells])
    return text.getvalue().encode()
