"""Waterfall of a call: lower bound, extra work, excess of kernels, gaps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from analyzers.timeline.call import each_in_call, in_call
from analyzers.verdicts.analysis import Analysis

LOWER_BOUND, WORK, EXCESS, KERNELS, CALL, GAPS = "lower_bound", "work", "excess", "kernels", "call", "gaps"
SLICE_KINDS = (LOWER_BOUND, WORK, EXCESS, KERNELS, CALL, GAPS)
"""Kinds of slices, in the order of a waterfall."""

BETWEEN = ("cupti", "nsys")
"""Timing methods from the first launch to the last end, without launch overhead."""

SAME = 0.1
"""Relative difference of two tools about one launch, above which something else ran."""


class Slice(msgspec.Struct, frozen=True, gc=False):
    """Slice of a call [s]; cause: a ceiling's name, one of causes.toml, "" unknown."""

    kind: str
    seconds: float
    kernel: str = ""
    cause: str = ""


class Waterfall(msgspec.Struct, frozen=True, gc=False):
    """Call of an implementation: `slices` add up to `time` [s]; `kernels`: seconds of each.

    `lower_bound` [s] is the task's, or the lower one of the implementation's own precision; NaN unknown.
    """

    impl: str
    time: float
    lower_bound: float
    slices: tuple[Slice, ...]
    kernels: Mapping[str, float] = {}

    def of(self, kind: str) -> float:
        """Seconds in slices of a kind."""
        return sum((one.seconds for one in self.slices if one.kind == kind), 0.0)


def waterfalls(analysis: Analysis) -> dict[str, Waterfall]:
    """Waterfall of every implementation that has a time."""
    rows, found = analysis.kernel_rows, {}
    for name, row in analysis.rows.items():
        time = float(row["time"])
        if time > 0:
            lower_bound = least(row["lower_bound_time"], row["lower_bound_own_time"])
            ran = [rows[index] for index in analysis.ran.get(name, ()) if rows[index].get("time", 0.0) > 0]
            # From the first start to the last end of one launch nothing but it lies: what the two tools differ by is no gap.
            alone = len(ran) == 1 and ran[0].get("launches") == 1 and str(row["method"]).startswith(BETWEEN)
            recorded = float(row.get("kernel_time", math.nan))
            found[name] = _waterfall(name, time, lower_bound, ran, alone=alone, recorded=recorded)
    return found


def least(task: float, own: float) -> float:
    """Lower bound [s] of the task or of the implementation's precision; NaN unknown."""
    return min((float(one) for one in (task, own) if not math.isnan(one)), default=math.nan)


def _at_roof(row: Mapping[Any, Any]) -> float:
    """Least seconds of a kernel at its ceilings, caches included; NaN if inconclusive.

    For a kernel bound by a ceiling, the known pipes suffice.
    """
    at, near = float(row.get("roof_time", math.nan)), float(row.get("roof_share", math.nan)) * row["time"]
    if math.isnan(at):
        return near if row["bound_by"] == row.get("roof") else math.nan
    return at if math.isnan(near) else max(at, near)


def _waterfall(
    name: str,
    time: float,
    lower_bound: float,
    kernels: Sequence[dict[Any, Any]],
    *,
    alone: bool = False,
    recorded: float = math.nan,
) -> Waterfall:
    """Waterfall of one call. `alone`: the call is one launch; recorded [s]: kernel time.

    Without a record, counted kernel times are scaled down to the call. If the kernels' times at their ceilings are
    below the lower bound (a launch's cost), all other slices are reduced in proportion.
    """
    counted = np.array([row["time"] for row in kernels], dtype=np.float64)
    busy = float(counted.sum())
    total = in_call(time, busy, recorded) if busy > 0 else 0.0
    if total == busy and alone and math.isnan(recorded) and 0 < time - busy < SAME * time:
        total = time
    of_call = np.array([row.get("call_time", math.nan) for row in kernels], dtype=np.float64)
    each = each_in_call(counted, of_call, total).tolist()
    over, at_roofs = list[tuple[str, float, str, str]](), 0.0
    for row, took in zip(kernels, each, strict=True):
        roof = _at_roof(row)
        kind, best = (KERNELS, 0.0) if math.isnan(roof) else (EXCESS, min(took, roof))
        at_roofs += best
        cause = str(row.get("cause", "")) or (str(row["bound_by"]) if row["bound_by"] != "unknown" else "")
        over.append((kind, took - best, row["kernel"], cause))
    over.append((GAPS if kernels else CALL, max(0.0, time - total), "", ""))
    base = 0.0 if math.isnan(lower_bound) else min(lower_bound, time)
    rest = sum(seconds for _, seconds, _, _ in over)
    keep = 1.0 - min(1.0, max(0.0, base - at_roofs) / rest) if rest > 0 else 1.0
    slices = [Slice(LOWER_BOUND, base), Slice(WORK, max(0.0, at_roofs - base))]
    slices += [Slice(kind, seconds * keep, kernel, cause) for kind, seconds, kernel, cause in over]
    # A kernel that runs in a range and in one inside it has a row for each.
    spent = dict.fromkeys((str(row["kernel"]) for row in kernels), 0.0)
    for row, took in zip(kernels, each, strict=True):
        spent[str(row["kernel"])] += took
    return Waterfall(name, time, lower_bound, tuple(one for one in slices if one.seconds > 0), spent)
