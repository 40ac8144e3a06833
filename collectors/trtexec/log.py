"""Printed output of trtexec: --dumpProfile and the performance summary, TensorRT 7 to 10.

The table is between `=== Profile (N iterations ) ===` and its Total row, with the layer's name before the
numbers (up to 8.5) or after them. The mean is total / N if it agrees with the printed average.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from collectors import text_of
from collectors.errors import CollectError

_PREFIX = re.compile(r"^(?:[ \t]+(?=\[))?(?:\[[A-Z]{4,}\] ?)?(?:\[[\d/:. -]+\] ?)?(?:\[(?P<level>[A-Z])\] ?)?")
_HEADING = re.compile(r"=== Profile \((\d+) iterations ?\) ===")
_BEGUN = re.compile(r"&&&& RUNNING|=== Performance summary|=== Profile")
_COLUMNS = re.compile(r"^\s*(?:Layer\s+Time ?\(ms\).*%|Time ?\(ms\).*%\)?\s+Layer)\s*$")
_MARK = re.compile(
    r"^[ \t]*(?:\[[^\]]*\] ?)*(?:=== Profile \(\d+ iter|=== Performance summary ===)|&&&& \w+ TensorRT\.trtexec", re.M
)
_STATISTIC = re.compile(r"(mean|median) = ([\d.]+(?:e[-+]?\d+)?) ms")
_FACTS = ("Selected Device", "Compute Capability", "Latency", "GPU Compute Time")


@dataclass
class Run:
    """A run: layers with mean times [s] over `count` iterations, and its summary.

    line: its first line.
    """

    line: int
    names: list[str] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    count: int = 0
    facts: dict[str, str] = field(default_factory=dict)

    def seconds(self, name: str) -> dict[str, float]:
        """Mean and median of a line of the summary [s]."""
        return {key: float(value) * 1e-3 for key, value in _STATISTIC.findall(self.facts.get(name, ""))}


def is_log(head: str) -> bool:
    """Whether a text is trtexec's output."""
    return bool(_MARK.search(head))


def read_logs(path: Path) -> list[Run]:
    """Runs of a log with times; one begins at `&&&& RUNNING`, or a second table or summary.

    Raises CollectError for a cut table, or if no run has a time.
    """
    parts: list[list[tuple[int, str]]] = [[]]
    for number, text in _lines(path):
        begun = _BEGUN.match(text)
        if begun and parts[-1] and (begun[0].startswith("&") or any(one.startswith(begun[0]) for _, one in parts[-1])):
            parts.append([])
        parts[-1].append((number, text))
    runs = [_run(path, part) for part in parts if part]
    found = [one for one in runs if one.names or one.seconds("GPU Compute Time") or one.seconds("Latency")]
    if not found:
        raise CollectError(
            f"{path}: a log of trtexec without a layer profile or a performance summary",
            fix="let it run to its end, with --dumpProfile --separateProfileRun",
        )
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines without indentation, time and level; only [I] and untagged ones."""
    # A mark of byte order stands where files were put together.
    for number, line in enumerate(text_of(path).replace("\ufeff", "").splitlines(), 1):
        prefix = _PREFIX.match(line)
        if prefix and line.strip() and prefix["level"] in (None, "I"):
            rest = line[prefix.end() :]
            yield number, rest.lstrip() if rest.lstrip().startswith(("=", "&")) else rest


def _run(path: Path, lines: Sequence[tuple[int, str]]) -> Run:
    run = Run(lines[0][0])
    for at, (number, text) in enumerate(lines):
        name, _, rest = text.strip().partition(": ")
        heading = _HEADING.match(text)
        if name in run.facts:
            raise CollectError(f"{path}, line {number}: {name} occurs twice in one run", fix="give one file per run")
        if name in _FACTS:
            run.facts[name] = rest.strip()
        elif heading:
            run.count = int(heading[1])
            _layers(path, run, lines[at + 1 :])
    return run


def _layers(path: Path, run: Run, lines: Sequence[tuple[int, str]]) -> None:
    """Read rows after a heading, up to Total or the first other line."""
    number, header = lines[0] if lines else (0, "")
    if not _COLUMNS.match(header):
        raise CollectError(
            f"{path}, line {number}: expected the columns of a layer profile, found {header.strip()[:60]!r}",
            fix="the log is damaged: print it again with --dumpProfile",
        )
    values = r"(?P<time>\d+(?:\.\d+)?)\s+(?P<average>\d+(?:\.\d+)?)" + r"\s+\d+(?:\.\d+)?" * (1 + ("Median" in header))
    behind = header.rstrip().endswith("Layer")
    row = re.compile(rf"^\s*{values}\s+(?P<name>\S.*?)\s*$" if behind else rf"^\s*(?P<name>.*?)\s+{values}\s*$")
    total = math.nan
    for _, text in lines[1:]:
        if (match := row.match(text)) is None:
            break
        time, average = float(match["time"]), float(match["average"])
        if match["name"] == "Total":
            total = time
            break
        fine = time / run.count if run.count else average
        run.names.append(match["name"])
        run.means.append((fine if abs(fine - average) <= 0.006 else average) * 1e-3)
    if not run.names:
        what = f"{path}, line {number}: a layer profile and no layer after its columns"
        raise CollectError(what, fix="print it again")
    summed = sum(run.means) * run.count * 1e3
    if math.isnan(total):
        raise CollectError(f"{path}: the layer profile has no Total row: the log was cut", fix="print it again")
    # Every row is rounded to hundredths of a millisecond.
    if abs(total - summed) > 1e-2 * (len(run.names) + 1) + 1e-3 * total:
        what = f"{path}: the layers add up to {summed:.4g} of {total:.4g} ms"
        raise CollectError(what, fix="print it again")
