"""Printed output of trtexec: --dumpProfile and the performance summary, TensorRT 7 to 10.

The table stands between `=== Profile (N iterations ) ===` and its Total row, with the layer's name before the
numbers (up to 8.5) or behind them. The mean is total / N wherever it agrees with the printed average.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from collectors import text_of
from collectors.caveat import Caveat
from collectors.errors import CollectError

_PREFIX = re.compile(r"^(?:[ \t]+(?=\[))?(?:\[[A-Z]{4,}\] ?)?(?:\[[\d/:. -]+\] ?)?(?:\[(?P<level>[A-Z])\] ?)?")
_HEADING = re.compile(r"^=== Profile \((\d+) iterations ?\) ===")
_COLUMNS = re.compile(r"^\s*(?:Layer\s+Time ?\(ms\).*%|Time ?\(ms\).*%\)?\s+Layer)\s*$")
_MARK = re.compile(
    r"^[ \t]*(?:\[[^\]]*\] ?)*(?:=== Profile \(\d+ iter|=== Performance summary ===)|&&&& \w+ TensorRT\.trtexec",
    re.M,
)
_STATISTIC = re.compile(r"(\w+(?:\(\d+(?:\.\d+)?%\))?) = ([\d.]+(?:e[-+]?\d+)?) ms")
_SUMMARY = {
    "Latency": "latency",
    "GPU Compute Time": "compute",
}


@dataclass
class Table:
    """A layer table: iterations, names and mean times [s], and the sum of all iterations [s]."""

    count: int
    names: list[str] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    total: float = math.nan


@dataclass
class Log:
    """A run: its table (None without --dumpProfile), statistics [s] and device.

    begun: whether its command line was told. line: where it begins. name: among other runs of its file.
    """

    table: Table | None = None
    summary: dict[str, dict[str, float]] = field(default_factory=dict)
    device: str = ""
    cc: str = ""
    caveats: list[Caveat] = field(default_factory=list)
    begun: bool = False
    line: int = 1
    name: str = ""

    @property
    def known(self) -> set[str]:
        """The parts of the summary that have a mean or a median."""
        return {name for name, one in self.summary.items() if {"mean", "median"} & one.keys()}


def is_log(head: str) -> bool:
    """Whether a text is what trtexec prints."""
    return bool(_MARK.search(head))


def read_logs(path: Path, *, partial: bool = False) -> list[Log]:
    """The runs of a log; a second table or summary begins another run.

    partial: a table without its Total row is read as far as it goes. Raises CollectError for a cut table, and where no
    run told a time.
    """
    runs = [Log()]
    lines = _lines(path)
    for number, text in lines:
        log, heading = runs[-1], _HEADING.match(text)
        begun = text.startswith("&&&& RUNNING")
        again = bool(heading and log.table) or (text.startswith("=== Performance summary") and bool(log.summary))
        if again or (begun and (log.begun or log.table or log.summary)):
            log = Log(line=number)
            runs.append(log)
        if begun:
            log.begun, log.line = True, number
        elif text.startswith("&&&& FAILED"):
            log.caveats.append(Caveat("trtexec says that the run failed", f"line {number}", "run it to its end"))
        elif heading:
            log.table = _table(path, int(heading[1]), lines)
        elif _note(log, text):
            raise CollectError(
                f"{path}, line {number}: {text.strip().partition(':')[0]} stands twice in one summary",
                fix="give each run in a file of its own",
            )
    return _timed(path, runs, partial)


def _timed(path: Path, runs: list[Log], partial: bool) -> list[Log]:
    """The runs that told times, with names where they are several, and caveats."""
    found = [one for one in runs if one.table is not None or {"compute", "latency"} & one.known]
    if not found:
        raise CollectError(
            f"{path}: a log of trtexec without a layer profile or a performance summary",
            fix="run it to its end, with --dumpProfile --separateProfileRun",
        )
    for one in found:
        if one.table is not None:
            one.caveats += _checked(path, one.table, partial)
    silent = [str(one.line) for one in runs if one not in found and (one.begun or one.summary)]
    if silent:
        found[0].caveats.append(
            Caveat("runs of trtexec that told no times are left out", f"lines {', '.join(silent)}", "")
        )
    for number, one in enumerate(found, 1):
        one.name = f"run {number}"
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines without indentation, time and level; only [I] and untagged ones."""
    # A mark of byte order stands where files were put together.
    for number, line in enumerate(text_of(path).replace("\ufeff", "").splitlines(), 1):
        prefix = _PREFIX.match(line)
        if line.strip() and (prefix is None or prefix["level"] in (None, "I")):
            rest = line[prefix.end() if prefix else 0 :]
            yield number, rest.lstrip() if rest.lstrip().startswith(("=", "&")) else rest


def _note(log: Log, text: str) -> bool:
    """Take what a line tells; True where a line of the summary was told before."""
    name, _, rest = text.strip().partition(": ")
    if name == "Selected Device":
        log.device = rest.strip()
    elif name == "Compute Capability":
        log.cc = rest.strip()
    elif name in _SUMMARY:
        found = {key: float(value) * 1e-3 for key, value in _STATISTIC.findall(rest)}
        if found and _SUMMARY[name] in log.summary:
            return True
        if found:
            log.summary[_SUMMARY[name]] = found
    return False


def _table(path: Path, count: int, lines: Iterator[tuple[int, str]]) -> Table:
    """The rows after a heading, up to Total or to the first line that is none."""
    table = Table(count)
    number, header = next(lines, (0, ""))
    if not _COLUMNS.match(header):
        raise CollectError(
            f"{path}, line {number}: expected the columns of a layer profile, found {header.strip()[:60]!r}",
            fix="the log is damaged: print it again with --dumpProfile",
        )
    median, last = "Median" in header, header.rstrip().endswith("Layer")
    numbers = r"\s+".join([r"(\d+(?:\.\d+)?)"] * (4 if median else 3))
    row = re.compile(rf"^\s*{numbers}\s+(?P<name>\S.*?)\s*$" if last else rf"^\s*(?P<name>.*?)\s+{numbers}\s*$")
    for _, text in lines:
        match = row.match(text)
        if match is None:
            break
        # The name is a group of its own, before or behind the numbers.
        values = [float(value) for value in (match.groups()[:-1] if last else match.groups()[1:])]
        if match["name"] == "Total":
            table.total = values[0] * 1e-3
            break
        table.names.append(match["name"])
        table.means.append(_mean(values[0], values[1], count))
    if not table.names:
        raise CollectError(
            f"{path}, line {number}: a layer profile and no layer after its columns", fix="print it again"
        )
    return table


def _mean(total: float, average: float, count: int) -> float:
    """Seconds of one inference."""
    fine = total / count if count else average
    return (fine if abs(fine - average) <= 0.006 else average) * 1e-3


def _checked(path: Path, table: Table, partial: bool) -> list[Caveat]:
    """Refuse a table that lost rows, or caveat it with `partial`."""
    if math.isnan(table.total):
        what = f"{path}: the layer profile has no Total row: the log was cut"
    else:
        lost = table.total - sum(table.means) * table.count
        # Every row is rounded to hundredths of a millisecond.
        if abs(lost) <= 1e-5 * (len(table.names) + 1) + 1e-3 * table.total:
            return []
        what = f"{path}: the layers add up to {(table.total - lost) * 1e3:.4g} of {table.total * 1e3:.4g} ms"
    if not partial:
        raise CollectError(what, fix="print it again, or read what is there (--partial; partial=True in Python)")
    return [Caveat(what, f"{len(table.names)} layers read", "print it again")]
