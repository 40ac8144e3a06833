"""How much of a call its kernels take, and each of them, as one record of the whole call tells it: the rest lies between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzers.kernels.provenance import base_name

Times: TypeAlias = "NDArray[np.float64]"
NAN = float("nan")
LIKE = 0.1
"""Relative difference of the recorded call's span from the median of the timed ones up to which it stands for them."""


@dataclass(frozen=True)
class Recorded:
    """One call: `span` [s] from its first activity to the end of its last, `share` of that in which a kernel ran, and how
    many `kernels` it had; `names` and `times` [s] of these in the order of their launches. Of a call whose copies and fills are
    counted like kernels, these are kernels here.
    """

    span: float
    share: float
    kernels: int
    names: tuple[str, ...] = field(default=(), compare=False)
    times: tuple[float, ...] = field(default=(), compare=False)

    def seconds(self, time: float, kernels: float) -> float:
        """Of a call that takes `time` [s] and launches so many kernels, how long kernels run; NaN for another kind of call."""
        alike = kernels == self.kernels and abs(self.span - time) <= LIKE * time
        return time * self.share if alike else NAN

    def of(self, launches: pd.DataFrame) -> dict[str, float]:
        """Kernel -> seconds of all its launches in this call; empty where these are others, or in another order: ncu and CUPTI
        spell the same name in two ways, the function's own in one.
        """
        names = [str(name) for name in launches["kernel"]]
        if [base_name(name) for name in names] != [base_name(name) for name in self.names]:
            return {}
        found: dict[str, float] = {}
        for name, time in zip(names, self.times, strict=True):
            found[name] = found.get(name, 0.0) + time
        return found


def in_kernels(calls: pd.DataFrame, launches: pd.DataFrame | None = None) -> dict[str, Recorded]:
    """By implementation. calls: a row an activity of one call, with impl, kind, kernel, start and time [s]; launches: those
    that were counted, by whose kinds of work it is told what counts as a kernel.
    """
    counted: Mapping[str, set[str]] = {}
    if launches is not None:
        counted = {str(name): set(part["kind"]) for name, part in launches.groupby("impl", sort=False)}
    found = {}
    for name, part in calls.groupby("impl", sort=False, observed=True):
        begin, end = float(part["start"].min()), float((part["start"] + part["time"]).max())
        ran = part[part["kind"].isin({"kernel"} | counted.get(str(name), set()))].sort_values("start", kind="stable")
        covered = length(union(ran, begin, end))
        if covered > 0:
            work = tuple(map(str, ran["kernel"])), tuple(map(float, ran["time"]))
            found[str(name)] = Recorded(end - begin, covered / (end - begin), len(ran), *work)
    return found


def union(part: pd.DataFrame, begin: float, end: float) -> Times:
    """Merged stretches (begin, end) [s] of launches, cut to the window; shape (n, 2)."""
    start = part["start"].to_numpy(dtype="float64")
    return merged(start, start + part["time"].to_numpy(dtype="float64"), begin, end)


def merged(start: Times, stop: Times, begin: float = -math.inf, end: float = math.inf) -> Times:
    """Merged stretches (begin, end) [s] of such from `start` to `stop`, which may overlap, cut to the window; shape (n, 2)."""
    if not len(start):
        return np.zeros((0, 2))
    start, stop = np.clip(start, begin, end), np.clip(stop, begin, end)
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, stop = start[order], stop[order]
    np.maximum.accumulate(stop, out=stop)
    fresh = np.flatnonzero(start[1:] > stop[:-1])
    return np.column_stack((start[np.r_[0, fresh + 1]], stop[np.r_[fresh, len(stop) - 1]]))


def rows(mine: NDArray[np.bool_]) -> NDArray[np.bool_] | slice:
    """What takes the rows that are `mine`: of all of a million rows no copy."""
    return slice(None) if mine.all() else mine


def length(stretches: Times) -> float:
    """Seconds of all of them."""
    return float((stretches[:, 1] - stretches[:, 0]).sum())


def in_call(time: float, counted: float, recorded: float = NAN) -> float:
    """Seconds that the kernels of a call of `time` [s] take in it: as recorded, else as counted, but no more than the call;
    NaN for neither.
    """
    return recorded if recorded == recorded else min(counted, time) if counted == counted else NAN


def each_in_call(counted: Times, recorded: Times, total: float) -> Times:
    """Seconds of the `total` [s] that the kernels of a call take, of each: by what it took where the call was recorded, if that
    is known of all, else where it was counted; NaN where neither is.
    """
    weights = recorded if np.isfinite(recorded).all() and recorded.sum() > 0 else counted
    whole = float(weights.sum())
    return weights * (total / whole) if whole > 0 else np.full(len(weights), NAN)
