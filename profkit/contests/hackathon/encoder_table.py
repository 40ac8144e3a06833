"""Evaluation table of the TensorRT hackathon's testEncoderAndDecoder.py and its variants.

    read("eval.txt") -> parts, each a table: columns by the header, rows as they stood

Columns come from the header (split by "|"), rows are split by ","; a row may be shorter. bs batch, sl sequence
length, lt latency [ms], tp [word/s], a* largest absolute difference, r* median relative difference of output *.
Thresholds are data: a part is Good when every named column is below its limit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from collectors.errors import CollectError

THRESHOLDS: dict[str, dict[str, float]] = {
    "encoder": {"a0": 3.5e-2, "r0": 2e-3, "r1": 1e-1},
    "decoder": {"a0": 4e-1, "r0": 2e-4, "r1": 1e-1},
}
"""The preliminary round's, strict "<"; a1 is not tested. A team may state others."""

_HEADER = re.compile(r"^\s*bs\s*\|.*\blt\s*\|", re.IGNORECASE)
_PART = re.compile(r"Test\s+(\w+)\s+Part", re.IGNORECASE)
_AVERAGE = re.compile(r"^\s*avg\s+(\w+):\s*([-+.\deEnaif]+)(?:.*?target:\s*([-+.\deE]+))?")


@dataclass(frozen=True)
class Row:
    """One row: its line in the file, cells by column, and the verdict (Good, Bad or "")."""

    line: int
    cells: Mapping[str, str]
    verdict: str = ""

    def number(self, name: str) -> float:
        text = self.cells.get(name, "")
        try:
            return float(text)
        except ValueError:
            return math.nan


@dataclass(frozen=True)
class Part:
    """One table: "encoder", "decoder" or ""; averages and targets that it prints."""

    name: str
    columns: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)
    averages: dict[str, str] = field(default_factory=dict)
    targets: dict[str, float] = field(default_factory=dict)


def read(path: str | Path) -> tuple[Part, ...]:
    """The parts of a file. Raises CollectError naming the file and line."""
    file = Path(path)
    try:
        text = file.read_text("utf-8", "replace")
    except OSError as error:
        raise CollectError(f"{file}: {error.strerror}") from error
    return parse(text, str(file))


def parse(text: str, name: str = "table") -> tuple[Part, ...]:
    parts: list[Part] = []
    part = ""
    for number, line in enumerate(text.splitlines(), 1):
        announced = _PART.search(line)
        if announced:
            part = announced[1].lower()
        elif _HEADER.match(line):
            columns = tuple(cell.strip().lower() for cell in line.split("|") if cell.strip())
            parts.append(Part(part, tuple(c for c in columns if c != "output check")))
        elif parts:
            _line(parts[-1], line, number, name)
    if not parts:
        raise CollectError(
            f"{name}: no header `bs| sl| lt| tp| ...`", fix="give the output of testEncoderAndDecoder.py"
        )
    return tuple(parts)


def _line(part: Part, line: str, number: int, name: str) -> None:
    average = _AVERAGE.match(line)
    if average:
        part.averages[average[1]] = average[2].rstrip(",")
        if average[3]:
            part.targets[average[1]] = float(average[3])
        return
    if not re.match(r"^\s*\d+\s*,", line):
        return
    cells = [cell.strip() for cell in line.split(",") if cell.strip()]
    verdict = cells.pop() if cells[-1] in ("Good", "Bad") else ""
    if len(cells) > len(part.columns):
        raise CollectError(
            f"{name}, line {number}: {len(cells)} cells, the header has {len(part.columns)}",
            fix="keep the header of the same script",
        )
    row = Row(number, dict(zip(part.columns, cells, strict=False)), verdict)
    for column in ("bs", "lt"):
        if column in row.cells and math.isnan(row.number(column)):
            raise CollectError(f"{name}, line {number}: {column} is {row.cells[column]!r}, not a number")
    part.rows.append(row)


def passes(part: Part, row: Row) -> str:
    """ "Good" or "Bad" by the part's targets, else the contest's; "" when a column lacks."""
    limits = {**THRESHOLDS.get(part.name, {}), **part.targets}
    tested = {name: limit for name, limit in limits.items() if name in part.columns}
    if not tested or any(name not in row.cells for name in tested):
        return ""
    return "Good" if all(row.number(name) < limit for name, limit in tested.items()) else "Bad"
