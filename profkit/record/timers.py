"""Time one kernel with several timing methods, in its own process and under ncu."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
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
from profkit.launch.protocol import BARE, Progress
from profkit.record.tools.ncu import unavailable
from profkit.rundir.files import temporary
from profkit.vendor.nvidia import ncu

SCHEMA = "profkit-timers/1"
LIMIT, NCU_LIMIT = 180.0, 45.0
"""Seconds after which timing one kernel, or ncu on all of them, counts as hung; includes a build."""
CALLS = 5
"""Calls of each kernel under ncu, after a mark."""
_MARK = "spin_kernel"


def measure(targets: Sequence[str], progress: Progress = lambda _: None, *, limit: float = LIMIT) -> dict[str, Any]:
    """Times of every target by every method, as one document.

    targets: FILE.py:FUNCTION, or a sample's folder. Seconds; on a CPU two methods. limit: seconds per
    target; results so far stay. Raises ProfkitError if nothing was measured.
    """
    argv = [*BARE, "profkit.torch_tools.timers", json.dumps([*targets])]
    with temporary() as folder:
        out = Path(folder) / "timers.json"
        progress(f"timing {', '.join(targets)}")
        most = limit * len(targets)
        ended = process.run([*argv, str(out)], log=Path(folder) / "log", env=environment(), limit=most)
        told: dict[str, Any] = json.loads(out.read_text("utf-8")) if out.exists() else {"kernels": []}
    kernels = told["kernels"]
    how = ""
    if ended.hung or ended.code:
        how = f"no end after {most:g} s" if ended.hung else ended.signal or f"exit code {ended.code}"
        kernels[-1:] = [{**kernel, "error": f"after the last clock: {how}"} for kernel in kernels[-1:]]
    if not any(kernel["rows"] for kernel in kernels):
        why = "; ".join(kernel["error"] for kernel in kernels) or ended.tail or how
        raise ProfkitError(f"no timing method gave a time: {why}", fix="check that the code runs alone")
    for cache, control in {"cold": "all", "warm": "none"}.items() if gpu_present() else ():
        progress(f"timing under ncu, {cache} cache")
        times, why = _durations(argv, control)
        for kernel, seconds in zip(kernels, [*times, *[math.nan] * len(kernels)], strict=False):
            kernel["rows"].append(_row(seconds, cache, kernel["rows"], why))
    return {"schema": SCHEMA, **told}


def _durations(argv: Sequence[str], control: str) -> tuple[list[float], str]:
    """(seconds per call of each target by ncu, and why there are none)."""
    trouble, tool = unavailable(), tools.find(tools.NCU)
    if trouble is not None or tool is None:
        return [], str(trouble)
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
            return [], said.message if said else str(error).partition("\n")[0].replace(folder, "")
    sums: list[float] = []
    for name, seconds in zip(frame["kernel"].astype(str), frame["time"].astype(float), strict=True):
        sums += [0.0] if _MARK in name else []
        sums[-1:] = [one + (0.0 if _MARK in name else seconds / CALLS) for one in sums[-1:]]
    return [one or math.nan for one in sums], ""


def _row(seconds: float, cache: str, rows: Sequence[Mapping[str, Any]], why: str) -> dict[str, Any]:
    """Sum of launches by ncu, which serialises them: no gaps, no overlap."""
    judged = {row["cache"]: row for row in rows if row["clock"] == "CUPTI"}
    row: dict[str, Any] = {"clock": "ncu", "cache": cache, "error": why}
    if math.isnan(seconds) or len(judged) < 2:
        return {**row, "error": why or "not in ncu's record"}
    cold, here = number(judged["cold"], "time"), judged[cache]
    parts = {"l2": number(here, "gap"), "events": number(here, "busy") - number(here, "time")}
    rest = seconds - cold - math.fsum(parts.values())
    none = dict.fromkeys(("launch", "flush", "pace"), 0.0)
    return {**row, "time": seconds, "gap": seconds - cold, **none, **parts, "rest": rest}
