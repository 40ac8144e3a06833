"""Subjects of the rules from an analysis and a roofline: each call and each kernel."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import pandas as pd

from analyzers.counts import beyond_l1
from analyzers.kernels.names import compiled, library
from analyzers.metrics import View
from analyzers.records import number, rows_of
from analyzers.rules.rule import Subject
from analyzers.timeline.budget import Budget
from analyzers.timeline.call import in_call
from analyzers.verdicts.analysis import Analysis
from collectors.caveat import RANGES_OVERLAP
from roofline.ceilings import Roofline
from roofline.units import percent

NAN = math.nan
Row: TypeAlias = "Mapping[str, Any]"
ON_A_CPU = "wall"
"""Timing method of a CPU."""


def call_subjects(
    analysis: Analysis,
    roofline: Roofline,
    sms: float = NAN,
    on_cpu: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
) -> list[Subject]:
    """Each implementation as a whole, with its own lower bound; sms: a CPU's threads."""
    kernels = analysis.kernels
    distinct = Counter(kernels["impl"])
    computing = computing_shares(kernels)
    names, moving = _names(kernels), _names(kernels, moving=True)
    # The longest comes first, and is one where it is launched once; a frame without kernels may be without columns, too.
    first = rows_of(kernels.drop_duplicates("impl")) if "share" in kernels else []
    longest = {
        str(row["impl"]): (str(row["kernel"]), float(row["share"]) if row.get("launches", 1) <= 1 else NAN)
        for row in first
    }
    summary = any(caveat.code == RANGES_OVERLAP for caveat in analysis.caveats)
    found = []
    for name, row in analysis.rows.items():
        values = {column: number(row, column) for column in row}
        values["lower_bound_time"] = number(row, "lower_bound_own_time")
        # The sum of the kernels of a record, or of a summary of it, is no time of a call: what lies between them is not in it.
        uncounted = math.isnan(values["bytes"]) and number(row, "time") <= values["counted_time"] * (1 + 1e-6)
        values["summed"] = float(not analysis.method and (not name or summary or uncounted))
        values["distinct"] = float(distinct[name]) if len(kernels) else NAN
        values["computing_share"] = computing.get(name, 0.0)
        text = {"bound_by": str(row.get("bound_by", "")), "source": str(row.get("work_source", ""))}
        text["longest"], values["longest_share"] = longest.get(name, ("", NAN))
        if analysis.method == ON_A_CPU:
            shares = ceiling_shares(row, roofline)
            told = ", ".join(f"{ceiling} {percent(share)}" for ceiling, share in shares.items())
            text |= {"cpu": "yes", "roof": next(iter(shares), ""), "shares": told}
            values |= {"threads": threads_busy(row), "sm_count": sms, "dram_peak": roofline.peak("dram")}
            text["compute"] = str(row.get("compute", ""))
            for whose, one in (("own", name), ("reference", analysis.reference)):
                values |= {f"{whose}_{key}": value for key, value in on_cpu.get(one, {}).items()}
        text |= {"compiled": "yes"} if compiled(name, names.get(name, ())) else {}
        found.append(Subject(name, "", number(row, "time"), values, text=text, moving=moving.get(name, frozenset())))
    return found


def threads_busy(row: Row) -> float:
    """Threads busy in a call on a CPU, on average; NaN if only the wall clock was recorded."""
    busy = number(row, "host_time") / (number(row, "time") or NAN)
    return NAN if busy == 1.0 else busy


def ceiling_shares(row: Row, roofline: Roofline) -> dict[str, float]:
    """Shares of the compute and DRAM ceilings of a call, the largest first."""
    pipe = str(row.get("compute") or "")
    shares = {"dram": number(row, "dram_fraction")}
    shares |= {pipe: number(row, "achieved_flops") / (roofline.peak(pipe) or NAN)} if pipe else {}
    return {name: one for name, one in sorted(shares.items(), key=lambda item: -item[1]) if one > 0}


def _names(kernels: pd.DataFrame, *, moving: bool = False) -> dict[str, frozenset[str]]:
    """Part -> its kernels, or only its data-moving kernels; {} if unknown."""
    if moving and not {"compute_fraction", "dram_fraction"} <= set(kernels):
        return {}
    chosen = kernels[~_computing(kernels)] if moving else kernels
    found: dict[str, set[str]] = {}
    for name, kernel in zip(chosen["impl"], chosen["kernel"], strict=True):
        found.setdefault(str(name), set()).add(str(kernel))
    return {name: frozenset(one) for name, one in found.items()}


WHOLE = "the program"
"""Name of a whole program with one process on one device."""


def program_subjects(budgets: Mapping[str, Budget], *, counted: bool = False) -> list[Subject]:
    """Each process and device in its steady state, with its slices in seconds per step.

    `engaged_`: how long the host spent on a cause. counted: its kernels were counted, so their lost time is reported by
    kernel.
    """
    found = []
    for name, one in budgets.items():
        steps = max(one.steady.steps, 1)
        values = {key: sums / steps for key, sums in vars(one).items() if isinstance(sums, (int, float))}
        values |= {f"engaged_{cause}": seconds / steps for cause, seconds in one.engaged.items()}
        values |= {f"without_{kind}": seconds / steps for kind, seconds in one.without.items()}
        values |= {"idle": one.idle / steps, "short": one.short, "loads": float(one.loads)}
        values |= {"tiny": NAN} if counted else {}
        places = {"hole_before": one.hole_before, "found": one.steady.found}
        # The largest of each cause comes first.
        places |= {f"doing_{hole.cause}": hole.doing for hole in reversed(one.named)}
        found.append(Subject(name or WHOLE, "", one.step, values, text=places, whole=True))
    return found


COMPUTES = 0.25
"""Share of a compute ceiling from which a kernel counts as computing, if no memory ceiling is nearer."""


def computing_shares(kernels: pd.DataFrame) -> dict[str, float]:
    """Share of time in kernels nearer to a compute ceiling than to DRAM's; {} if unknown."""
    if not {"impl", "share", "compute_fraction", "dram_fraction"} <= set(kernels):
        return {}
    shares = kernels["share"].where(_computing(kernels), 0.0).groupby(kernels["impl"], sort=False).sum()
    return {str(name): float(share) for name, share in shares.items()}


def _computing(kernels: pd.DataFrame) -> pd.Series[bool]:
    return kernels["compute_fraction"].ge(COMPUTES) & kernels["compute_fraction"].ge(kernels["dram_fraction"])


def kernel_subjects(analysis: Analysis, roofline: Roofline, sms: float = NAN) -> list[Subject]:
    """Each kernel of each implementation that was counted."""
    kernels = analysis.kernels
    if not len(kernels):
        return []
    times = rows_of(pd.DataFrame(View(kernels, roofline).roof_times))
    peaks = {name: roofline.peak(name) for name in dict.fromkeys(c.name for c in roofline.ceilings)}
    calls = analysis.rows
    # Where an implementation, with the ranges inside it, has one kernel, the work is that kernel's.
    alone = {name for name, rows in analysis.ran.items() if len(rows) == 1}
    ahead = calls.get(analysis.reference, {})
    reference = number(ahead, "tensor_share")
    tasks = {name: _task(analysis, name) for name in kernels["impl"].unique()}
    made = {name: compiled(name, ran) for name, ran in _names(kernels).items()}
    found = []
    for row, roofs, past in zip(analysis.kernel_rows, times, beyond_l1(kernels), strict=True):
        name = str(row["impl"])
        call, (pipe, intensity, written) = calls.get(name, {}), tasks[name]
        values = {key: float(value) for key, value in row.items() if isinstance(value, (int, float))}
        values |= {"reference_tensor_share": reference, "work_intensity": intensity, "beyond_l1": float(past)}
        if not values.get("sm_count", NAN) > 0:
            values["sm_count"] = sms
        if name in alone:
            values |= {"compulsory_bytes": number(call, "compulsory_bytes"), "output": written}
            values["host_time"] = number(call, "host_time")
        text = {"work_pipe": pipe, "library": _library(row, made.get(name, False))}
        text |= {key: str(row.get(key, "")) for key in ("cc", "cause")}
        if call.get("pace") == "slower":
            # The ceiling that the reference is nearer to, in the same work.
            text["ahead"], values["speedup"] = str(ahead.get("bound_by", "")), number(call, "speedup")
        times_ = {str(key): float(value) for key, value in roofs.items()}
        kernel, took = str(row["kernel"]), float(row["time"])
        found.append(Subject(name, kernel, took, values, times_, peaks, text, _scale(call, row)))
    return found


def _library(row: Mapping[Any, Any], made: bool) -> str:
    """Library of a kernel; "" without one. made: by torch.compile."""
    name = "TensorRT" if row.get("tool") == "trtexec" else library(str(row["kernel"]))
    return f"{name} (compiled)" if made and name == "ATen" else name


def _scale(call: Row, kernel: Mapping[Any, Any]) -> float:
    """Kernel seconds in the call over counted seconds; 1 if unknown."""
    time, counted, recorded = (number(call, name) for name in ("time", "counted_time", "kernel_time"))
    own = number(kernel, "call_time") / (number(kernel, "time") or NAN)
    quotient = own if own == own else in_call(time, counted, recorded) / (counted or NAN)
    return quotient if quotient == quotient else 1.0


def _task(analysis: Analysis, name: str) -> tuple[str, float, float]:
    """Pipe of the declared work, FLOP per compulsory byte, bytes of the output."""
    works = analysis.works_of(name)
    flops: Mapping[str, float] = next((work.flops for work in works if work.flops), {})
    intensity = next((work.intensity for work in works if work.bytes > 0), NAN)
    written = next((work.written for work in works if work.written > 0), NAN)
    return max(flops, key=lambda pipe: flops[pipe], default=""), intensity, written
