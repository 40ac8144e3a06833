"""ncu's text page, as a terminal shows it: launches, and under each its sections' tables.

kernel(int) (16, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
  Section: GPU Speed Of Light Throughput
  ------------------- ------------- ------------
  Metric Name           Metric Unit Metric Value
  ------------------- ------------- ------------
  Duration                  usecond        14.46
  ------------------- ------------- ------------
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from collectors.ncu.text import LONGEST, Row, Scan, Table, physical_lines
from collectors.rows import printed, ruler

_KEYS = ("ID", "Process ID", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC")
_TITLES = ["Section Name", "Metric Name", "Metric Unit"]
_RANGE = ["Minimum", "Maximum", "Average"]
_SHAPE = r"(?P<grid>\([\d, ]+\))x(?P<block>\([\d, ]+\))"
_PROCESS = re.compile(r"\[(\d+)\] \S+@\S+\s*$")
_DEVICE = re.compile(r"^\s+Device (\d+), CC ([\d.]+)\s*$")
LAUNCH = re.compile(
    rf"^(?=.*, (?:Context|Invocations) \d)[ \t]*(?P<kernel>\S.*?)(?: {_SHAPE})?(?:, \d{{4}}-\w{{3}}-\d\d [\d:]+)?"
    r"(?:, Context (?P<context>\d+), Stream (?P<stream>\d+))?(?:, Device (?P<device>\d+), CC (?P<cc>[\d.]+))?"
    r"(?(context)|, Invocations (?P<invocations>\d+))\s*$",
    re.MULTILINE,
)
"""Line of a launch; in `--print-summary` of all launches of a kernel."""
_SECTION = re.compile(r"^\s+Section: (.+?)\s*$")


@dataclass
class _Table:
    """An open table: ends of its columns, and whether it is one of metrics."""

    ends: tuple[int, ...]
    rulers: int = 1
    titled: bool = False
    metrics: bool = True

    def closed(self) -> bool:
        """Whether one more ruler closes the table."""
        self.rulers += 1
        return self.rulers == (3 if self.titled else 2)


@dataclass
class _Place:
    """Process, device and launch of the current part of a page."""

    process: str = ""
    device: tuple[str, str] = ("", "")
    number: int = -1
    keys: list[str] = field(default_factory=list)
    section: str = ""

    def enter(self, launch: re.Match[str], before: str) -> None:
        """Start a launch; if its line has only the shape, its name is on the previous line."""
        self.number += 1
        self.section = ""
        kernel, grid, block = launch["kernel"] or "", launch["grid"] or "", launch["block"] or ""
        if whole := re.fullmatch(_SHAPE, kernel):
            kernel, grid, block = before.strip(), whole["grid"], whole["block"]
        if kernel.startswith("unnamed>"):
            kernel = f"<{kernel}"  # ncu prints "<unnamed>::f" so, where no type stands before it.
        device, cc = (launch["device"], launch["cc"]) if launch["device"] else self.device
        where = [launch["context"] or "", launch["stream"] or "", block, grid, device or "", cc or ""]
        counted = [launch["invocations"]] if launch["invocations"] else []
        self.keys = [str(self.number), self.process, kernel, *where, *counted]


def rows(scan: Scan) -> Iterator[Row]:
    """Metrics of a text page as rows of a details or summary table; empty for other text.

    A file that ends inside a table is cut there (Scan.stop). Metrics before the first launch are left out.
    """
    pages = {3: Table([*_KEYS, *_TITLES, "Metric Value"], 1), 5: Table([*_KEYS, "Invocations", *_TITLES, *_RANGE], 1)}
    place, before, line = _Place(), "", 0
    table: _Table | None = None
    for line, data in enumerate(physical_lines(scan.path), 1):
        text = data[:LONGEST].decode("utf-8", errors="replace").rstrip("\r\n")
        if len(ends := ruler(text)) in pages:
            if table is None:
                table = _Table(ends)
            elif table.closed():
                table = None
            continue
        launch, named = LAUNCH.match(text), _SECTION.match(text)
        if table is not None and (launch or named or not text.strip()):
            return scan.stop(line, "a table is not closed")
        if launch:
            place.enter(launch, before)
        elif named:
            place.section = named[1]
        elif table is None:
            if of := _PROCESS.match(text.strip()):
                place.process = of[1]
            elif on := _DEVICE.match(text):
                place.device = on[1], on[2]
        elif text.strip().startswith("Metric Name"):
            table.titled = True
            table.metrics = text.split() == " ".join(pages[len(table.ends)].header[-len(table.ends) :]).split()
        elif table.metrics and place.keys and (cells := printed(text, table.ends))[-1]:
            yield Row(b"", pages[len(cells)], line, [*place.keys, place.section, *cells])
        before = text
    return scan.stop(line, "a table is not closed") if table is not None else None
