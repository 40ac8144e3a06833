"""What binds a call: the share of its time that each roof, waiting, and the gaps between kernels hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analyzers.counts import column, inside
from analyzers.timeline.call import each_in_call, in_call

MOST = 0.5
"""Share of the time from which one thing is called what binds."""

SHOWN = 0.01
WAITING = ("latency", "unknown", "")
GAPS = "gaps"


def splits(kernels: pd.DataFrame, times: Mapping[str, tuple[float, float]]) -> dict[str, dict[str, float]]:
    """Part -> what holds its time (a roof, latency, unknown, gaps) -> share of the seconds of a call, the largest first.

    kernels: placed, with those of the ranges inside a part, scaled to the seconds that they take in the call. times: of a
    call, and of its kernels in it as recorded, NaN where none was; gaps are what these leave of it. A part without kernel times is left out.
    """
    if "bound_by" not in kernels:
        return {}
    seconds, of_call, bounds = column(kernels, "time"), column(kernels, "call_time"), kernels["bound_by"].tolist()
    found = {}
    for name, rows in inside(kernels).items():
        busy, (span, recorded) = float(seconds[rows].sum()), times.get(name, (math.nan, math.nan))
        if not (busy > 0 and span > 0):
            continue
        total = in_call(span, busy, recorded)
        shares: dict[str, float] = {}
        for row, took in zip(rows, each_in_call(seconds[rows], of_call[rows], total), strict=True):
            shares[bounds[row]] = shares.get(bounds[row], 0.0) + float(took) / span
        shares[GAPS] = max(0.0, 1.0 - total / span)
        found[name] = dict(sorted(shares.items(), key=lambda one: -one[1]))
    return found


def reasons(kernels: pd.DataFrame) -> dict[str, str]:
    """Part -> the cause (causes.CAUSES) that holds most of what its kernels wait; not there where nothing waits."""
    if "cause" not in kernels:
        return {}
    causes, found = kernels["cause"].tolist(), {}
    counted, of_call = column(kernels, "time"), column(kernels, "call_time")
    for name, rows in inside(kernels).items():
        sums: dict[str, float] = {}
        for row, took in zip(rows, each_in_call(counted[rows], of_call[rows], 1.0), strict=True):
            if causes[row]:
                sums[causes[row]] = sums.get(causes[row], 0.0) + float(took)
        if sums:
            found[name] = max(sums, key=lambda one: sums[one])
    return found


def held(row: Mapping[str, Any], shares: Mapping[str, float], why: str = "") -> dict[str, Any]:
    """bound_by, bound_split, evidence and cause of a call, roof and roof_share where that is its roof: its own roof where one is near, else what most of its time is.

    why: the cause of what its kernels wait, of a call that waits for the most part.
    """
    bound, evidence = str(row["bound_by"]), str(row["evidence"])
    told = {name: share for name, share in shares.items() if share >= SHOWN}
    split = ", ".join(f"{share:.0%} {name}" for name, share in told.items())
    if bound in WAITING and told:
        first = next(iter(told))
        word = "launch" if first == GAPS else first
        bound = word if told[first] > MOST else "mixed" if set(told) - {"unknown", GAPS} else bound
        evidence += f"; {split}" if len(told) > 1 else ""
    told_ = {"bound_by": bound, "bound_split": split, "evidence": evidence, "cause": why if bound == "latency" else ""}
    known = row.get("shares", {}).get(bound, math.nan)
    # What holds most of its kernels' time need not be the roof that the whole is nearest to.
    return told_ if math.isnan(known) else {**told_, "roof": bound, "roof_share": known}
