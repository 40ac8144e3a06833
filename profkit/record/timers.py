"""One kernel by every clock: in a process of its own and, where there is ncu, in two more under it."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from profkit.record.ncu import unavailable
from profkit.rundir.files import temporary
from profkit.targets.sample import resolve
from profkit.targets.source import Source
from profkit.vendor.nvidia import ncu

SCHEMA = "profkit-timers/1"
LIMIT, NCU_LIMIT = 180.0, 45.0
"""Seconds after which the clocks of one kernel, or ncu on all of them, count as hung; a build is among the first."""
CALLS = 5
"""Of each kernel under ncu."""
_MARK = "spin_kernel"
_CACHES = {"cold": "all", "warm": "none"}
Document = dict[str, Any]


@dataclass(frozen=True)
class Timed:
    """A function or class `entry` of a file, and where its inputs come from: `reference`, or "" for the same file."""

    name: str
    file: str
    entry: str
    reference: str = ""


def named(word: str, part: str = "") -> Timed:
    """What FILE.py:FUNCTION or a sample's folder stands for; `part`: reference, a candidate, "" for the first that runs here.

    Raises ProfkitError.
    """
    file, _, entry = word.rpartition(":")
    if file.endswith(".py"):
        Source.read(_there(Path(file)))
        return Timed(entry, str(Path(file).resolve()), entry)
    sample = resolve(Path(word))
    kind = "cuda" if gpu_present() else "cpu"
    parts = {one.name: one for one in sample.parts}
    here = [one.name for one in sample.candidates if one.runs_on(kind)]
    chosen = parts.get(part or next(iter(here), "reference"))
    if chosen is None:
        raise ProfkitError(f"{word}: no part {part!r}", fix=f"--part is one of {', '.join(parts)}")
    entry = "Model" if chosen.role == "reference" else "ModelNew"
    files = (str(one.resolve()) for one in (chosen.path, sample.reference))
    return Timed(f"{sample.id} {chosen.name}", next(files), entry, next(files))


def _there(path: Path) -> Path:
    if not path.is_file():
        raise ProfkitError(f"{path}: no such file", fix="name FILE.py:FUNCTION, or a sample's folder")
    return path


def measure(
    targets: Sequence[Timed], progress: Callable[[str], None] = lambda _: None, *, limit: float = LIMIT
) -> Document:
    """Every clock of every target: {"schema", "device", "versions", "kernels": [{"name", "rows", "error", "attributed"}]}.

    Seconds; without a GPU the two clocks of a CPU. limit: seconds a target may take, what is known by then stays. Raises
    ProfkitError where nothing was measured.
    """
    words = json.dumps([asdict(one) for one in targets])
    with temporary() as folder:
        out, log = Path(folder) / "timers.json", Path(folder) / "log"
        progress(f"timing {', '.join(one.name for one in targets)}")
        argv = [*BARE, "profkit.torch_tools.timers", str(out), words]
        ended = process.run(argv, log=log, env=environment(), limit=limit * len(targets))
        told: Document = json.loads(out.read_text("utf-8")) if out.exists() else {"kernels": []}
        how = f"no end after {limit * len(targets):g} s" if ended.hung else ended.signal or f"exit code {ended.code}"
        if (ended.hung or ended.code) and told["kernels"]:
            told["kernels"][-1]["error"] = f"the clocks after the last row: {how}"
        if not any(kernel["rows"] for kernel in told["kernels"]):
            why = "; ".join(kernel["error"] for kernel in told["kernels"]) or f"{how}\n{ended.tail}"
            raise ProfkitError(f"no clock has told a time: {why}", fix="does the code run by itself?")
        if gpu_present():
            for state, control in _CACHES.items():
                progress(f"timing under ncu, {state} cache")
                for kernel, row in zip(told["kernels"], _by_ncu(words, state, control, told), strict=True):
                    kernel["rows"].append(row)
    for kernel in told["kernels"]:
        kernel["attributed"] = {f"{row['clock']}, {row['cache']}": attributed(row) for row in kernel["rows"]}
    return {"schema": SCHEMA, **told}


def attributed(row: Mapping[str, Any]) -> float | None:
    """Share of a clock's gap that is not `rest`; None where the gap is within max(2 %, 0.3 us), or nothing is known."""
    gap, rest = number(row, "gap"), number(row, "rest")
    reference = number(row, "time") - gap
    if math.isnan(rest) or abs(gap) <= max(0.02 * reference, 0.3e-6):
        return None
    return max(0.0, 1.0 - abs(rest / gap))


def _by_ncu(words: str, state: str, control: str, told: Document) -> list[Document]:
    """A row for each kernel: sums of gpu__time_duration over a call's launches, at whatever clock the GPU has."""
    trouble, tool = unavailable(), tools.find(tools.NCU)
    why = str(trouble) if trouble is not None else ""
    times: list[float] = []
    if tool is not None and not why:
        times, why = _durations(tool.path, words, control)
    if len(times) < len(told["kernels"]):
        why, times = why or f"{len(times)} of {len(told['kernels'])} kernels in ncu's record", []
    found = times or [math.nan] * len(told["kernels"])
    return [_row(seconds, state, kernel, why) for seconds, kernel in zip(found, told["kernels"], strict=False)]


def _durations(tool: str, words: str, control: str) -> tuple[list[float], str]:
    """(seconds a call of each target, why there are none)."""
    with temporary() as folder, counting(identity().get("uuid", "")):
        csv, log = Path(folder) / "ncu.csv", Path(folder) / "log"
        options = ncu.Options(["gpu__time_duration.sum"], csv, include=(), cache=control, windowed=True)
        argv = [*ncu.prefix(tool, options), *BARE, "profkit.torch_tools.timers", "", words, str(CALLS)]
        env = environment(ncu.environment(Path(folder)))
        ended = process.run(argv, log=log, env=env, limit=NCU_LIMIT)
        try:
            frame = read(csv, format="ncu")
        except ProfkitError as error:
            said = reason(diagnose(f"{csv.read_text('utf-8', 'replace') if csv.exists() else ''}\n{ended.tail}"))
            return [], said.message if said else str(error).partition("\n")[0].replace(folder, "")
    groups: list[list[float]] = []
    for name, seconds in zip(frame["kernel"].astype(str), frame["time"].astype(float), strict=True):
        if _MARK in name:
            groups.append([])
        elif groups:
            groups[-1].append(seconds)
    return [_a_call(group) for group in groups], ""


def _a_call(times: Sequence[float]) -> float:
    """Seconds of a call, a median; launches of copies and fills are not among them."""
    each = len(times) // CALLS
    return (
        statistics.median(math.fsum(times[at : at + each]) for at in range(0, each * CALLS, each)) if each else math.nan
    )


def _row(seconds: float, state: str, kernel: Document, why: str) -> Document:
    """ncu runs launch after launch: gaps inside a call are left out, as is what runs at once."""
    judged = {row["cache"]: row for row in kernel["rows"] if row["clock"] == "CUPTI"}
    if not judged:
        return {"clock": "ncu", "cache": state, "error": why or "no time by CUPTI to compare with"}
    cold, here = number(judged["cold"], "time"), judged[state]
    l2, gaps = number(here, "time") - cold, number(here, "busy") - number(here, "time")
    parts = {"launch": 0.0, "flush": 0.0, "l2": l2, "pace": 0.0, "events": gaps}
    told = {"time": seconds, "gap": seconds - cold, **parts, "rest": seconds - cold - l2 - gaps}
    if math.isnan(seconds):
        told = {}
    return {"clock": "ncu", "cache": state, **told, "error": why}
