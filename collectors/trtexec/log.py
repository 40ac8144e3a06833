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
from pathlib import Path, PurePosixPath

from collectors import text_of
from collectors.doubt import Doubt
from collectors.errors import CollectError

_PREFIX = re.compile(r"^(?:[ \t]+(?=\[))?(?:\[[A-Z]{4,}\] ?)?(?:\[[\d/:. -]+\] ?)?(?:\[(?P<level>[A-Z])\] ?)?")
_HEADING = re.compile(r"^=== Profile \((\d+) iterations ?\) ===")
_COLUMNS = re.compile(r"^\s*(?:Layer\s+Time ?\(ms\).*%|Time ?\(ms\).*%\)?\s+Layer)\s*$")
_MARK = re.compile(
    r"^[ \t]*(?:\[[^\]]*\] ?)*(?:=== Profile \(\d+ iter|=== Performance summary ===)|&&&& \w+ TensorRT\.trtexec",
    re.M,
)
_BORDER = re.compile(r"&&&& |=== (?:Model Options|Device Information) ===|#{1,6} |```|~~~")
"""What a line begins with that parts two runs."""
_TITLE = re.compile(r"(#{1,6}) +(.*?)[ #]*$")
_MODEL = re.compile(r"--(?:onnx|loadEngine|uff|deploy|model)=")
_OUTPUT = re.compile(r"--(?:save|export|dump|verbose|timingCacheFile)")
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
    """A run: its table (None without --dumpProfile), statistics [s] by name of _SUMMARY, throughput [1/s], device, the
    command line and the Markdown headings above it, the line it begins at; `apart`: trtexec itself said that the one before it
    had ended; `name`: what tells it from the others of its file.
    """

    table: Table | None = None
    summary: dict[str, dict[str, float]] = field(default_factory=dict)
    throughput: float = math.nan
    device: str = ""
    cc: str = ""
    doubts: list[Doubt] = field(default_factory=list)
    command: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    line: int = 1
    apart: bool = False
    name: str = ""

    @property
    def told(self) -> bool:
        return self.table is not None or bool(self.summary)

    @property
    def figures(self) -> tuple[object, ...]:
        table = self.table
        return self.summary, table and (table.count, table.names, table.means)

    @property
    def known(self) -> set[str]:
        """What of the summary has a mean or a median; a line that was cut or wrapped may have neither."""
        return {name for name, one in self.summary.items() if {"mean", "median"} & one.keys()}


def is_log(head: str) -> bool:
    """Whether a text is what trtexec prints."""
    return bool(_MARK.search(head))


def read_logs(path: Path, *, partial: bool = False) -> list[Log]:
    """The runs of a log, or of a page that several were copied to, each with its table and summary.

    A run begins where trtexec says so, where a Markdown heading or fence does, and where a table or a summary comes once more.
    partial: a table without its Total row is read as far as it goes. Raises CollectError where no run told a time, and for a
    cut table.
    """
    log, runs, above, fenced = Log(), list[Log](), list[str](), False
    lines = _lines(path)
    for number, text in lines:
        heading, begun = _HEADING.match(text), text.startswith("&&&& RUNNING")
        again = bool(heading and log.table) or (text.startswith("=== Performance summary") and bool(log.summary))
        if again or (log.told and _BORDER.match(text)) or (begun and log.command):
            if text.startswith("&&&& FAILED"):
                log.doubts.append(Doubt("trtexec says that the run failed", f"line {number}", "run it to its end"))
            runs.append(log)
            log = Log(line=number, apart=text.startswith("&&&& "))
        fenced ^= text.startswith(("```", "~~~"))
        # In a fence such a line is a shell's comment.
        if not fenced and (title := _TITLE.match(text)):
            above[len(title[1]) - 1 :] = [""] * max(0, len(title[1]) - 1 - len(above)) + [title[2]]
        log.above = log.above if log.told else tuple(above)
        if begun:
            log.command, log.line = tuple(text.partition("#")[2].split()[1:]), number
        elif heading:
            log.table = _table(path, int(heading[1]), lines)
        elif _note(log, text):
            raise CollectError(
                f"{path}, line {number}: {text.strip().partition(':')[0]} stands twice in one summary",
                fix="give each run in a file of its own",
            )
    return _told(path, _joined([*runs, log]), partial)


def _joined(runs: list[Log]) -> list[Log]:
    """The runs; a table and a summary that are alone in a file are of one run, whatever stands between them but another run."""
    told = [one for one in runs if one.told]
    if len(told) == 2 and sum(one.table is not None for one in told) == 1:
        first, last = told
        between = runs[runs.index(first) + 1 : runs.index(last) + 1]
        if not (first.summary and last.summary) and not any(one.apart or one.command for one in between):
            first.table, first.summary = first.table or last.table, first.summary or last.summary
            first.throughput = last.throughput if math.isnan(first.throughput) else first.throughput
            first.device, first.cc = first.device or last.device, first.cc or last.cc
            runs = [one for one in runs if one is not last]
    return runs


def _told(path: Path, runs: list[Log], partial: bool) -> list[Log]:
    """The runs that told times, with names where they are several, and doubts."""
    found = [one for one in runs if one.table is not None or {"compute", "latency"} & one.known]
    if not found:
        raise CollectError(
            f"{path}: a log of trtexec without a layer profile or a performance summary",
            fix="run it to its end, with --dumpProfile --separateProfileRun",
        )
    for one in found:
        if one.table is not None:
            one.doubts += _checked(path, one.table, partial)
    silent = [str(one.line) for one in runs if one not in found and (one.command or one.summary)]
    if silent:
        found[0].doubts.append(
            Doubt("runs of trtexec that told no times are left out", f"lines {', '.join(silent)}", "")
        )
    if len(found) > 1:
        _name(found)
    twins = [one.name for at, one in enumerate(found) if any(one.figures == other.figures for other in found[:at])]
    if twins:
        found[0].doubts.append(Doubt("runs stand in the file twice, to the last digit", ", ".join(twins), ""))
    return found


def _name(runs: list[Log]) -> None:
    """Name runs by their model and the options that tell them apart, where these do not by the headings above as well."""
    options = [[word for word in one.command if not _OUTPUT.match(word)] for one in runs]
    names = []
    for words in options:
        model = [_leaf(word) for word in words if _MODEL.match(word)]
        rest = [word for word in words if not all(word in other for other in options) and not _MODEL.match(word)]
        names.append(" ".join([*model[:1], *(word.lstrip("-") for word in rest)]))
    if len(set(names)) < len(runs):
        titles = [
            [text for text in one.above if text and not all(text in other.above for other in runs)] for one in runs
        ]
        names = [", ".join([*([name] if name else []), *above]) for name, above in zip(names, titles, strict=True)]
    taken: dict[str, int] = {}
    for at, (one, name) in enumerate(zip(runs, names, strict=True), 1):
        # In the path of a range a slash parts what is inside another.
        plain = name.replace("/", "-") or f"run {at}"
        number = taken[plain] = taken.get(plain, 0) + 1
        one.name = f"{plain} ({number})" if number > 1 else plain


def _leaf(option: str) -> str:
    """The name of a model's file without folder and ending."""
    return PurePosixPath(option.partition("=")[2].replace("\\", "/")).stem


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines without indentation, time and level; what is not [I] or is empty is passed over."""
    # A mark of byte order stands where files were put together.
    for number, line in enumerate(text_of(path).replace("\ufeff", "").splitlines(), 1):
        prefix = _PREFIX.match(line)
        if line.strip() and (prefix is None or prefix["level"] in (None, "I")):
            rest = line[prefix.end() if prefix else 0 :]
            yield number, rest.lstrip() if rest.lstrip().startswith(("=", "&", "#")) else rest


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
