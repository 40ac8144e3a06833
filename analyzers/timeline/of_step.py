"""Work of one step by range and name, and shares of kernels in a step or program."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from analyzers.kernels.provenance import plain_name, same_kernels
from analyzers.timeline.budget import Budget


def of_step(budgets: Iterable[Budget]) -> pd.DataFrame:
    """GPU work of a step, a row a range and name, the name that takes longest first.

    Columns: range, name, kind, slice (of a budget), time and own [s], count. Summed over processes and devices.
    """
    rows = [
        (one.range, one.name, one.kind, one.slice, *(part / found.parts for part in (one.time, one.own, one.count)))
        for found in budgets
        for one in found.spent
    ]
    frame = pd.DataFrame(rows, columns=["range", "name", "kind", "slice", "time", "own", "count"])
    summed = frame.groupby(["range", "name", "kind", "slice"], sort=False, as_index=False)[
        ["time", "own", "count"]
    ].sum()
    whole = summed["time"].groupby(summed["name"]).transform("sum")
    order = np.lexsort((-summed["time"], summed["name"], -whole))
    ordered: pd.DataFrame = summed.iloc[order].reset_index(drop=True)
    return ordered


def of_ranges(step: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Range -> (seconds of kernels, kernels) of a step (of_step), what is inside it included."""
    found: dict[str, tuple[float, float]] = {}
    ran = step[step["kind"] == "kernel"]
    for path, time, count in zip(ran["range"], ran["time"], ran["count"], strict=True):
        pieces = str(path).split("/")
        for depth in range(len(pieces)):
            name = "/".join(pieces[: depth + 1])
            before = found.get(name, (0.0, 0.0))
            found[name] = (before[0] + float(time), before[1] + float(count))
    return found


def in_step(kernels: pd.DataFrame, step: pd.DataFrame, wall: float) -> pd.DataFrame:
    """Kernels with `step_time` [s], `step_launches`, `share` and `wall_share`, longest first."""
    ran = step[step["kind"] == "kernel"]
    # A timeline names few kernels in many launches.
    named = ran["name"].unique()
    spelt = ran["name"].map({name: plain_name(name) for name in named}).astype("str")
    sums = ran[["time", "count"]].groupby(spelt).sum()
    mine = kernels["kernel"].map(same_kernels(kernels["kernel"], named))
    seconds, count = mine.map(sums["time"]).astype("float64"), mine.map(sums["count"]).astype("float64")
    total = float(ran["time"].sum()) or math.nan
    told = kernels.assign(
        step_time=seconds, step_launches=count, share=seconds / total, wall_share=seconds / (wall or math.nan)
    )
    ordered: pd.DataFrame = told.sort_values("step_time", ascending=False, kind="stable", ignore_index=True)
    return ordered


def of_whole(kernels: pd.DataFrame, frame: pd.DataFrame, wall: float) -> pd.DataFrame:
    """Kernels with their `share` of the program's GPU time and `wall_share` of `wall` [s]."""
    # A timeline names few kernels in many launches.
    spelt = {name: plain_name(name) for name in frame["kernel"].unique()}
    spent = frame["time"].groupby(frame["kernel"].map(spelt), observed=True).sum().to_dict()
    seconds = kernels["kernel"].map(same_kernels(kernels["kernel"], spelt)).map(spent).astype("float64")
    total = float(frame["time"].sum()) or math.nan
    shared: pd.DataFrame = kernels.assign(share=seconds / total, wall_share=seconds / (wall or math.nan))
    return shared
