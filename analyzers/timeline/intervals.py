"""Intervals of time: merged, cut to a window, their gaps and lengths.

Arrays of sorted disjoint (begin, end), shape (n, 2), in one unit of time.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Times: TypeAlias = "NDArray[np.float64]"


def union(part: pd.DataFrame, begin: float = -math.inf, end: float = math.inf) -> Times:
    """Merged intervals [s] of launches or calls, cut to a window."""
    start = part["start"].to_numpy(dtype="float64")
    return merged(start, start + part["time"].to_numpy(dtype="float64"), begin, end)


def merged(start: Times, stop: Times, begin: float = -math.inf, end: float = math.inf) -> Times:
    """Merge intervals [start, stop), which may overlap, and cut them to a window."""
    if not len(start):
        return np.zeros((0, 2))
    start, stop = np.clip(start, begin, end), np.clip(stop, begin, end)
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, stop = start[order], stop[order]
    np.maximum.accumulate(stop, out=stop)
    fresh = np.flatnonzero(start[1:] > stop[:-1])
    return np.column_stack((start[np.r_[0, fresh + 1]], stop[np.r_[fresh, len(stop) - 1]]))


def gaps(busy: Times, begin: float, end: float) -> Times:
    """Gaps of a window between the busy intervals."""
    edges = np.concatenate(([begin], busy.ravel(), [end])).reshape(-1, 2)
    return edges[edges[:, 1] > edges[:, 0]]


def length(stretches: Times) -> float:
    return float((stretches[:, 1] - stretches[:, 0]).sum())


def passed(stretches: Times, times: Times) -> Times:
    """Total length of the intervals up to each of `times`; same shape as `times`."""
    if not len(stretches):
        return np.zeros(np.shape(times))
    sums = np.column_stack((np.zeros(len(stretches)), stretches[:, 1] - stretches[:, 0])).ravel().cumsum()
    found: Times = np.interp(times, stretches.ravel(), sums)
    return found


def shared(stretches: Times, others: Times) -> Times:
    """Overlap of each of `others` with the intervals."""
    until = passed(stretches, others.ravel()).reshape(-1, 2)
    return until[:, 1] - until[:, 0]
