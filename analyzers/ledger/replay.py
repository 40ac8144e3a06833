"""Replay of recorded GPU work with other durations, to find the gain of a change.

Work starts when its recorded predecessor has ended and the host has launched it. The host launches at its recorded
pace, except that it waits less for a GPU that is done sooner.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzers.timeline.calls import WAITING, matching
from analyzers.timeline.intervals import Times

QUEUED = 2e-6
"""Most seconds between two queued kernels of a stream."""
SOON = 30e-6
"""Seconds after the end of GPU work within which a call that waited for it returns."""


@dataclass(frozen=True)
class Replay:
    """Work of a window by start: begin, end and launch time [s] (NaN unknown).

    after: each row's predecessor, -1 none; before: the previous row in its stream. waited: for each row the last call
    that waited for the GPU and returned before the row was launched, -1 none. `waits`: begin and end of those calls,
    and the row that each waited for.
    """

    start: Times
    stop: Times
    asked: Times
    after: NDArray[np.int64]
    before: NDArray[np.int64]
    waited: NDArray[np.int64]
    waits: tuple[Times, Times, NDArray[np.int64]]

    @classmethod
    def of(cls, work: pd.DataFrame, host: pd.DataFrame | None) -> Replay:
        """Replay of `work`, launches in order of start, and the `host` calls that made them.

        host: `launch` is the position in work, -1 without one.
        """
        start = work["start"].to_numpy("float64")
        stop = start + work["time"].to_numpy("float64")
        order = np.argsort(stop, kind="stable")
        after = _last(stop[order], start, order, 1e-9)
        rows = pd.Series(np.arange(len(work)))
        streams = work["stream"].to_numpy() if "stream" in work else np.zeros(len(work))
        before = rows.groupby(streams).shift(fill_value=-1).to_numpy("int64")
        asked, waits = np.full(len(start), np.nan), (np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64))
        if host is not None:
            calls = host[host["kind"] == "call"] if "kind" in host else host
            launches = calls[calls["launch"] >= 0]
            asked[launches["launch"].to_numpy()] = launches["start"].to_numpy("float64")
            blocking = calls[matching(calls["call"], WAITING)]
            begin = blocking["start"].to_numpy("float64")
            end = begin + blocking["time"].to_numpy("float64")
            whose = _last(stop[order], end, order, 0.0)
            mine = (whose >= 0) & (end - stop[whose] < SOON) & (begin < stop[whose])
            by_end = np.argsort(end[mine], kind="stable")
            waits = (begin[mine][by_end], end[mine][by_end], whose[mine][by_end])
        waited = np.searchsorted(waits[1], np.nan_to_num(asked, nan=-np.inf), side="right") - 1
        return cls(start, stop, asked, after, before, waited, waits)

    @property
    def pace(self) -> float:
        """Seconds of the host from one launch to the next."""
        asked = np.sort(self.asked[np.isfinite(self.asked)])
        return float(np.median(np.diff(asked))) if len(asked) > 1 else 0.0

    def spans(self, groups: NDArray[np.int64], factors: Times, freed: Times, *, queued: int) -> Times:
        """Seconds from the first start to the last end in each scenario.

        groups: the row of `factors` for each launch; factors [groups, scenarios]: factors on durations; freed [groups,
        scenarios]: host seconds saved per launch; queued: number of last scenarios in which the host is never late and
        work starts without a gap, as in a CUDA graph.
        """
        count, scenarios = len(self.start), factors.shape[1]
        length = self.stop - self.start
        gap = np.where(self.after >= 0, self.start - self.stop[self.after], 0.0)
        lag = self.start - self.asked
        usual = float(np.nanpercentile(lag, 5)) if np.isfinite(lag).any() else 0.0
        reached = self.asked + np.minimum(lag, usual)
        late = (reached >= np.where(self.after >= 0, self.stop[self.after], -np.inf)) & np.isfinite(reached)
        ready = np.where(late, self.start, np.where(np.isfinite(reached), reached, -np.inf))
        wait = np.where(late, np.minimum(gap, QUEUED), gap)
        ended, shift, done = np.zeros((count, scenarios)), np.zeros(scenarios), -1
        never = np.where(np.arange(scenarios) < scenarios - queued, 0.0, np.inf)
        for at in range(count):
            while done < self.waited[at]:
                done += 1
                asked, end, whose = (one[done] for one in self.waits)
                shift = end - np.maximum(asked - shift, ended[whose] + end - self.stop[whose])
            begin = ready[at] - shift - never
            if self.after[at] >= 0:
                begin = np.maximum(begin, ended[self.after[at]] + np.where(never > 0, 0.0, wait[at]))
            elif not at:
                begin = np.full(scenarios, self.start[at])
            if self.before[at] >= 0:
                begin = np.maximum(begin, ended[self.before[at]])
            ended[at] = begin + length[at] * factors[groups[at]]
            if np.isfinite(self.asked[at]):
                shift = shift + freed[groups[at]]
        first = self.start[0] if count else 0.0
        return ended.max(axis=0) - first if count else np.zeros(scenarios)


def _last(stops: Times, moments: Times, order: NDArray[np.int64], slack: float) -> NDArray[np.int64]:
    """Row that ended last before each time, -1 none."""
    at = np.searchsorted(stops, moments + slack, side="right") - 1
    return np.where(at >= 0, order[np.maximum(at, 0)], -1)
