"""Kernel time of a recorded call, and its bottleneck: ceilings, latency, gaps."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from analyzers.counts import column, inside
from analyzers.kernels.spelling import base_name
from analyzers.metrics import LITTLE
from analyzers.pipes import PIPES
from analyzers.placement import launch_bound
from analyzers.timeline.intervals import Times, length, union

NAN = float("nan")
LIKE = 0.1
"""Largest relative difference between the recorded call and the timed median it represents; convention."""
MOST = 0.5
"""Share of the time from which one bottleneck is named: the majority."""
SHOWN = 0.01
"""Share below which a part of the time is left out of the sentence."""
WAITING = ("latency", "unknown", "")
GAPS, MIXED = "gaps", "mixed"


@dataclass(frozen=True)
class Recorded:
    """Recorded call: `span` [s] of its activities, `share` of it with a kernel running.

    `kernels`: number; `names`, `times` [s]: in launch order. Copies and fills count as kernels if they were counted as
    such.
    """

    span: float
    share: float
    kernels: int
    names: tuple[str, ...] = field(default=(), compare=False)
    times: tuple[float, ...] = field(default=(), compare=False)

    def seconds(self, time: float, kernels: float) -> float:
        """Kernel seconds in a call of `time` [s]; NaN if that differs from this call."""
        alike = kernels == self.kernels and abs(self.span - time) <= LIKE * time
        return time * self.share if alike else NAN

    def of(self, launches: pd.DataFrame) -> dict[str, float]:
        """Kernel -> seconds of its launches in this call; empty if launches or their order differ.

        ncu and CUPTI spell kernel names differently, but function names alike.
        """
        names = [str(name) for name in launches["kernel"]]
        if [base_name(name) for name in names] != [base_name(name) for name in self.names]:
            return {}
        found = dict.fromkeys(names, 0.0)
        for name, time in zip(names, self.times, strict=True):
            found[name] += time
        return found


def in_kernels(calls: pd.DataFrame, launches: pd.DataFrame | None = None) -> dict[str, Recorded]:
    """Recorded call of each implementation.

    calls: one row per activity, with impl, kind, kernel, start and time [s]. launches: the counted ones; their kinds of
    work count as kernels.
    """
    parts = () if launches is None else launches.groupby("impl", sort=False)
    counted = {str(name): set(part["kind"]) for name, part in parts}
    found = {}
    for name, part in calls.groupby("impl", sort=False, observed=True):
        begin, end = float(part["start"].min()), float((part["start"] + part["time"]).max())
        ran = part[part["kind"].isin({"kernel"} | counted.get(str(name), set()))].sort_values("start", kind="stable")
        covered = length(union(ran, begin, end))
        if covered > 0:
            work = tuple(map(str, ran["kernel"])), tuple(map(float, ran["time"]))
            found[str(name)] = Recorded(end - begin, covered / (end - begin), len(ran), *work)
    return found


def in_call(time: float, counted: float, recorded: float = NAN) -> float:
    """Kernel seconds in a call of `time` [s]: recorded, else counted; NaN unknown."""
    return recorded if recorded == recorded else min(counted, time) if counted == counted else NAN


def each_in_call(counted: Times, recorded: Times, total: float) -> Times:
    """Seconds of each kernel of `total`, in proportion to recorded, else counted times."""
    weights = recorded if np.isfinite(recorded).all() and recorded.sum() > 0 else counted
    whole = float(weights.sum())
    return weights * (total / whole) if whole > 0 else np.full(len(weights), NAN)


def splits(
    kernels: pd.DataFrame, times: Mapping[str, tuple[float, float]]
) -> dict[str, tuple[dict[str, float], str, bool]]:
    """Part -> shares of time by bottleneck (ceiling, latency, unknown, gaps), cause, mix.

    kernels: placed, including those of inner ranges, scaled to their seconds in the call. times: of a call, and of its
    kernels as recorded (NaN unknown); the rest are gaps. A part without kernel times is left out. The largest share
    comes first; the cause is one of causes.toml, "" without latency. Pipes mix if no pipe has nearly all FLOP.
    """
    if "bound_by" not in kernels:
        return {}
    seconds, of_call = column(kernels, "time"), column(kernels, "call_time")
    bounds, causes, found = kernels["bound_by"].tolist(), kernels["cause"].tolist(), {}
    flop, pipe = np.nan_to_num(column(kernels, "flops")), kernels["compute"].to_numpy()
    for name, rows in inside(kernels).items():
        busy, (span, recorded) = float(seconds[rows].sum()), times.get(name, (math.nan, math.nan))
        if not (busy > 0 and span > 0):
            continue
        total = in_call(span, busy, recorded)
        shares, waits = defaultdict[str, float](float), defaultdict[str, float](float)
        for row, took in zip(rows, each_in_call(seconds[rows], of_call[rows], total).tolist(), strict=True):
            shares[bounds[row]] += took / span
            waits[causes[row]] += took if causes[row] else 0.0
        shares[GAPS] = max(0.0, 1.0 - total / span)
        ranked = dict(sorted(shares.items(), key=lambda one: -one[1]))
        mine = flop[rows]
        by_pipe = [mine[pipe[rows] == one].sum() for one in set(pipe[rows])]
        mixed = max(by_pipe) < (1 - LITTLE) * sum(by_pipe)
        found[name] = ranked, max(waits, key=lambda one: waits[one]), mixed
    return found


def held(row: Mapping[str, Any], shares: Mapping[str, float], why: str = "", mixed: bool = False) -> dict[str, Any]:
    """Columns bound_by, bound_split, compute, cause, roof and roof_share of a call.

    The call's own ceiling if it is near, launches if they dominate, else the majority of its time; latency only if counters
    exclude the rest. why: the cause of its kernels' latency. mixed: its kernels' FLOP are of several pipes, so no one
    compute ceiling holds for them.
    """
    bound = str(row["bound_by"])
    busy = in_call(row["time"], row["counted_time"], row["kernel_time"])
    if "n" in row and bound in ("latency", "unknown") and launch_bound(row["time"], busy, row["kernels"]):
        bound = "launch"
    elif bound == "latency" and row["work_source"] != "counted":
        bound = "unknown"
    told = {name: share for name, share in shares.items() if share >= SHOWN}
    split = ", ".join(f"{share:.0%} {name}" for name, share in told.items())
    if bound in WAITING and told:
        first = next(iter(told))
        word = "launch" if first == GAPS else first
        bound = word if told[first] > MOST else MIXED if set(told) - {"unknown", GAPS} else bound
    bound = MIXED if mixed and bound in PIPES else bound
    told_: dict[str, Any] = {"bound_by": bound, "bound_split": split, "cause": why if bound == "latency" else ""}
    told_ |= {"compute": MIXED} if mixed else {}
    if mixed and row["roof"] in PIPES:
        told_ |= {"roof": "", **dict.fromkeys(("roof_share", "attainable", "attainable_fraction"), NAN)}
    known = row.get("shares", {}).get(bound, math.nan)
    # What holds most of its kernels' time need not be the ceiling that the whole is nearest to.
    return told_ if math.isnan(known) else {**told_, "roof": bound, "roof_share": known}
