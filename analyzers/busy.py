"""How much of a call its kernels take, as one record of the whole call tells it: the rest lies between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

NAN = float("nan")
LIKE = 0.1
"""Relative difference of the recorded call's span from the median of the timed ones up to which it stands for them."""


@dataclass(frozen=True)
class Recorded:
    """One call: `span` [s] from its first activity to the end of its last, `share` of that in which a kernel ran, and how
    many `kernels` it had.
    """

    span: float
    share: float
    kernels: int

    def seconds(self, time: float, kernels: float) -> float:
        """Of a call that takes `time` [s] and launches so many kernels, how long kernels run; NaN for another kind of call."""
        alike = kernels == self.kernels and abs(self.span - time) <= LIKE * time
        return time * self.share if alike else NAN


def in_kernels(calls: pd.DataFrame) -> dict[str, Recorded]:
    """By implementation. calls: a row an activity of one call, with impl, kind, start and time [s]."""
    found = {}
    for name, part in calls.groupby("impl", sort=False):
        begin = part["start"].to_numpy(dtype="float64")
        end = begin + part["time"].to_numpy(dtype="float64")
        ran = (part["kind"] == "kernel").to_numpy()
        span = float(end.max() - begin.min())
        if ran.any() and span > 0:
            found[str(name)] = Recorded(span, _covered(begin[ran], end[ran]) / span, int(ran.sum()))
    return found


def _covered(begin: Any, end: Any) -> float:
    """Seconds in at least one of the stretches."""
    order = np.argsort(begin)
    reach = np.maximum.accumulate(end[order])
    before = np.concatenate(([-np.inf], reach[:-1]))
    return float(np.clip(reach - np.maximum(begin[order], before), 0.0, None).sum())


def seconds_in_kernels(row: Mapping[Any, Any]) -> float:
    """Of one call of a row of Analysis.impls: as recorded, else as counted, but no more than the call; NaN for neither."""
    known, counted = float(row.get("kernel_time", NAN)), float(row.get("counted_time", NAN))
    return known if known == known else min(counted, float(row["time"])) if counted == counted else NAN
