"""What trtexec prints: the layer table of --dumpProfile and the performance summary, of TensorRT 7 to 10.

The table stands between `=== Profile (N iterations ) ===` and its Total row, with the layer's name before the
numbers (up to 8.5) or behind them. Total times carry more digits of one inference than the printed average, so the
mean is total / N wherever the two agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from collectors import text_of
from collectors.doubt import Doubt
from collectors.errors import CollectError

_PREFIX = re.compile(r"^(?:\[[A-Z]{4,}\] ?)?(?:\[[\d/:. -]+\] ?)?(?:\[(?P<level>[A-Z])\] ?)?")
_HEADING = re.compile(r"^=== Profile \((\d+) iterations ?\) ===")
_COLUMNS = re.compile(r"^\s*(?:Layer\s+Time ?\(ms\).*%|Time ?\(ms\).*%\)?\s+Layer)\s*$")
_MARK = re.compile(
    r"^(?:\[[^\]]*\] ?)*(?:=== Profile \(\d+ iter|=== Performance summary ===)|&&&& \w+ TensorRT\.trtexec",
    re.M,
)
_STATISTIC = re.compile(r"(\w+(?:\(\d+(?:\.\d+)?%\))?) = ([\d.]+(?:e[-+]?\d+)?) ms")
_RATE = re.compile(r"(\d[\d.]*(?:e[-+]?\d+)?) qps")
_SUMMARY = {
    "Latency": "latency",
    "Enqueue Time": "enqueue",
    "H2D Latency": "h2d",
    "GPU Compute Time": "compute",
    "D2H Latency": "d2h",
}


@dataclass
class Table:
    """A layer table: iterations, and per layer its name, mean and median time [s] (NaN where not printed)."""

    count: int
    names: list[str] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    medians: list[float] = field(default_factory=list)
    total: float = math.nan


@dataclass
class Log:
    """A log: its table (None without --dumpProfile), statistics [s] by name of _SUMMARY, throughput [1/s], device."""

    table: Table | None = None
    summary: dict[str, dict[str, float]] = field(default_factory=dict)
    throughput: float = math.nan
    device: str = ""
    cc: str = ""
    doubts: list[Doubt] = field(default_factory=list)


def is_log(head: str) -> bool:
    """Whether a text is what trtexec prints."""
    return bool(_MARK.search(head))


def read_log(path: Path, *, partial: bool = False) -> Log:
    """The table and the summary of a log. partial: a table without its Total row is read as far as it goes.

    Raises CollectError for a log with neither, of several runs, or with a cut table.
    """
    log, told = Log(), False
    lines = _lines(path)
    for number, text in lines:
        # What a run has told is not put together with what another tells.
        if told and "&&&& RUNNING" in text:
            raise CollectError(f"{path}, line {number}: a second run in one log", fix="split the file")
        told = log.table is not None or bool(log.summary)
        heading = _HEADING.match(text)
        if heading:
            if log.table is not None:
                raise CollectError(f"{path}, line {number}: a second profile in one log", fix="split the file")
            log.table = _table(path, int(heading[1]), lines)
        elif _note(log, text):
            raise CollectError(f"{path}, line {number}: a second performance summary in one log", fix="split the file")
    if log.table is not None:
        log.doubts += _checked(path, log.table, partial)
    elif "compute" not in log.summary and "latency" not in log.summary:
        raise CollectError(
            f"{path}: a log of trtexec without a layer profile or a performance summary",
            fix="run it to its end, with --dumpProfile --separateProfileRun",
        )
    return log


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines without time and level; what is not [I] is passed over."""
    for number, line in enumerate(text_of(path).splitlines(), 1):
        prefix = _PREFIX.match(line)
        if prefix is None or prefix["level"] in (None, "I"):
            yield number, line[prefix.end() if prefix else 0 :]


def _note(log: Log, text: str) -> bool:
    """Take what a line tells; True where a line of the summary was told before."""
    name, _, rest = text.strip().partition(": ")
    if name == "Throughput" and (rate := _RATE.match(rest)):
        log.throughput = float(rate[1])
    elif name == "Selected Device":
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
        table.medians.append(values[2] * 1e-3 if median else math.nan)
    if not table.names:
        raise CollectError(
            f"{path}, line {number}: a layer profile and no layer after its columns", fix="print it again"
        )
    return table


def _mean(total: float, average: float, count: int) -> float:
    """Seconds of one inference."""
    fine = total / count if count else average
    return (fine if abs(fine - average) <= 0.006 else average) * 1e-3


def _checked(path: Path, table: Table, partial: bool) -> list[Doubt]:
    """Refuse a table that lost rows, or doubt it with `partial`."""
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
    return [Doubt(what, f"{len(table.names)} layers read", "print it again")]


def statistics(log: Log) -> dict[str, float]:
    """The summary with one name a number: throughput [1/s], latency_median [s], compute_mean [s], ..."""
    found = {f"{name}_{key}": value for name, one in log.summary.items() for key, value in one.items()}
    return found if math.isnan(log.throughput) else {"throughput": log.throughput, **found}
