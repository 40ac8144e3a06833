"""One kernel by every clock: in a process of its own and, where there is ncu, in two more under it."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzers.records import number
from collectors import read
from collectors.ncu.log import diagnose, reason
from profkit.errors import ProfkitError
from profkit.launch import process, tools
from profkit.launch.alone import counting
from profkit.launch.environment import environment
from profkit.launch.gpu import gpu_present, identity
from profkit.launch.protocol import BARE
from profkit.record.tools.ncu import unavailable
from profkit.rundir.files import temporary
from profkit.vendor.nvidia import ncu

SCHEMA = "profkit-timers/1"
LIMIT, NCU_LIMIT = 180.0, 45.0
"""Seconds after which the clocks of one kernel, or ncu on all of them, count as hung; a build is among the first."""
CALLS = 5
"""Of each kernel under ncu, after a mark."""
_MARK = "spin_kernel"


def measure(
    targets: Sequence[str], part: str = "", progress: Callable[[str], None] = lambda _: None, *, limit: float = LIMIT
) -> dict[str, Any]:
    """Every clock of every target: {"schema", "device", "versions", "kernels": [{"name", "rows", "error", "attributed"}]}.

    targets: FILE.py:FUNCTION or a sample's folder, and of that the `part`. Seconds; on a CPU two clocks. limit: seconds for a
    target; what is known by then stays. Raises ProfkitError where nothing was measured.
    """
    argv = [*BARE, "profkit.torch_tools.timers", json.dumps([*targets]), part]
    with temporary() as folder:
        out = Path(folder) / "timers.json"
        progress(f"timing {', '.join(one.rpartition(':')[2] for one in targets)}")
        most = limit * len(targets)
        ended = process.run([*argv, str(out)], log=Path(folder) / "log", env=environment(), limit=most)
        told: dict[str, Any] = json.loads(out.read_text("utf-8")) if out.exists() else {"kernels": []}
    kernels = told["kernels"]
    if ended.hung or ended.code:
        how = f"no end after {most:g} s" if ended.hung else ended.signal or f"exit code {ended.code}"
        kernels[-1:] = [{**kernel, "error": f"after the last clock: {how}"} for kernel in kernels[-1:]]
    if not any(kernel["rows"] for kernel in kernels):
        why = "; ".join(kernel["error"] for kernel in kernels) or ended.tail
        raise ProfkitError(f"no clock has told a time: {why}", fix="does the code run by itself?")
    if gpu_present():
        found = {}
        for cache, control in {"cold": "all", "warm": "none"}.items():
            progress(f"timing under ncu, {cache} cache")
            found[cache] = _durations(argv, control)
        for number, kernel in enumerate(kernels):
            kernel["rows"] += _rows(number, found, kernel["rows"])
    for kernel in kernels:
        kernel["attributed"] = {f"{row['clock']}, {row['cache']}": attributed(row) for row in kernel["rows"]}
    return {"schema": SCHEMA, **told}


def attributed(row: Mapping[str, Any]) -> float | None:
    """Share of a clock's gap that is not `rest`; None where the gap is within max(2 %, 0.3 us), or nothing is known."""
    gap, rest = number(row, "gap"), number(row, "rest")
    if math.isnan(rest) or abs(gap) <= max(0.02 * (number(row, "time") - gap), 0.3e-6):
        return None
    return max(0.0, 1.0 - abs(rest / gap))


@dataclass(frozen=True)
class _Durations:
    """gpu__time_duration under ncu [s]: of the launches of a call of each target, and of an empty kernel; or why there is none."""

    calls: tuple[float, ...] = ()
    mark: float = math.nan
    why: str = ""


def _durations(argv: Sequence[str], control: str) -> _Durations:
    trouble, tool = unavailable(), tools.find(tools.NCU)
    if trouble is not None or tool is None:
        return _Durations(why=str(trouble))
    with temporary() as folder, counting(identity().get("uuid", "")):
        csv = Path(folder) / "ncu.csv"
        options = ncu.Options(["gpu__time_duration.sum"], csv, include=(), cache=control, windowed=True)
        env = environment(ncu.environment(Path(folder)))
        words = [*ncu.prefix(tool.path, options), *argv, "", str(CALLS)]
        ended = process.run(words, log=Path(folder) / "log", env=env, limit=NCU_LIMIT)
        try:
            frame = read(csv, format="ncu")
        except ProfkitError as error:
            said = reason(diagnose(f"{csv.read_text('utf-8', 'replace') if csv.exists() else ''}\n{ended.tail}"))
            return _Durations(why=said.message if said else str(error).partition("\n")[0].replace(folder, ""))
    marks: list[float] = []
    sums: dict[int, float] = {}
    for name, seconds in zip(frame["kernel"].astype(str), frame["time"].astype(float), strict=True):
        if _MARK in name:
            marks.append(seconds)
        else:
            at = (len(marks) - 1) // CALLS
            sums[at] = sums.get(at, 0.0) + seconds / CALLS
    calls = tuple(sums.get(number, math.nan) for number in range(len(marks) // CALLS))
    return _Durations(calls, statistics.median(marks or [math.nan]))


def _rows(number: int, found: Mapping[str, _Durations], rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """ncu runs launch after launch, each with an emptied cache where it is cold: gaps inside a call are left out, and each time
    stamp costs what it does on an empty kernel.
    """
    judged = {row["cache"]: row for row in rows if row["clock"] == "CUPTI"}
    times = {cache: one.calls[number] if number < len(one.calls) else math.nan for cache, one in found.items()}
    for cache, one in found.items():
        row: dict[str, Any] = {"clock": "ncu", "cache": cache, "error": one.why}
        if math.isnan(times[cache]) or len(judged) < 2:
            yield {**row, "error": one.why or "not in ncu's record"}
            continue
        told = {name: number_of for name, number_of in judged[cache].items() if isinstance(number_of, float)}
        stamps = judged[cache]["launches"] * (one.mark - told["mark"])
        parts = {"launch": 0.0, "flush": 0.0, "l2": told["gap"], "pace": 0.0, "trace": 0.0, "tail": 0.0}
        parts["events"] = stamps + told["total"] - told["span"]
        if cache == "cold":
            warm, seen = found["warm"], judged["warm"]
            emptied = times["cold"] - times["warm"] - judged["cold"]["launches"] * (one.mark - warm.mark)
            parts["flush"] = emptied - (told["total"] - seen["total"])
        gap = times[cache] - judged["cold"]["time"]
        yield {**row, "time": times[cache], "gap": gap, **parts, "rest": gap - math.fsum(parts.values())}
