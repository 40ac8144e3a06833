"""Work of one step by range and name, and shares of kernels in a step or program."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from analyzers.counts import column, inside
from analyzers.kernels.spelling import plain_name, same_kernels
from analyzers.timeline.budget import Budget


def of_step(budgets: Iterable[Budget]) -> pd.DataFrame:
    """GPU work of a step, one row per range and name, the name with the most time first.

    Columns: range, name, kind, slice (of a budget), time and own [s], count. Summed over processes and devices.
    """
    rows = [
        (one.range, one.name, one.kind, one.slice, *(part / found.parts for part in (one.time, one.own, one.count)))
        for found in budgets
        for one in found.spent
    ]
    keys = ["range", "name", "kind", "slice"]
    frame = pd.DataFrame(rows, columns=[*keys, "time", "own", "count"])
    summed = frame.groupby(keys, sort=False, as_index=False)[["time", "own", "count"]].sum()
    whole = summed["time"].groupby(summed["name"]).transform("sum")
    order = np.lexsort((-summed["time"], summed["name"], -whole))
    ordered: pd.DataFrame = summed.iloc[order].reset_index(drop=True)
    return ordered


def of_ranges(step: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Range -> (seconds of kernels, kernels) of a step (of_step), inner ranges included."""
    ran = step[step["kind"] == "kernel"].rename(columns={"range": "impl"})
    time, count = column(ran, "time"), column(ran, "count")
    return {name: (float(time[rows].sum()), float(count[rows].sum())) for name, rows in inside(ran).items()}


def in_step(kernels: pd.DataFrame, step: pd.DataFrame, wall: float) -> pd.DataFrame:
    """Kernels with `step_time` [s], `step_launches`, `share` and `wall_share`, longest first."""
    ran = step[step["kind"] == "kernel"]
    mine = _recorded(kernels, ran["name"], ran[["time", "count"]])
    told = _shared(kernels.assign(step_time=mine["time"], step_launches=mine["count"]), mine["time"], ran, wall)
    ordered: pd.DataFrame = told.sort_values("step_time", ascending=False, kind="stable", ignore_index=True)
    return ordered


def of_whole(kernels: pd.DataFrame, frame: pd.DataFrame, wall: float) -> pd.DataFrame:
    """Kernels with their `share` of the program's GPU time and `wall_share` of `wall` [s]."""
    return _shared(kernels, _recorded(kernels, frame["kernel"], frame[["time"]])["time"], frame, wall)


def _recorded(kernels: pd.DataFrame, names: pd.Series[str], amounts: pd.DataFrame) -> pd.DataFrame:
    """A timeline's record of each of these kernels."""
    spelt = {name: plain_name(name) for name in names.unique()}
    sums = amounts.groupby(names.map(spelt).astype("str"), observed=True).sum()
    same = same_kernels(kernels["kernel"], spelt)
    found: pd.DataFrame = sums.reindex([same.get(name) for name in kernels["kernel"]]).set_axis(kernels.index)
    return found


def _shared(kernels: pd.DataFrame, seconds: pd.Series[float], ran: pd.DataFrame, wall: float) -> pd.DataFrame:
    total = float(ran["time"].sum()) or math.nan
    shared: pd.DataFrame = kernels.assign(share=seconds / total, wall_share=seconds / (wall or math.nan))
    return shared
