"""Speed-up of two samples that nothing pairs, as steps of two programs."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from analyzers.verdicts.speedup import THRESHOLD, word
from analyzers.verdicts.statistics import LEVEL, Array, Ratio, positive

FEWEST = 4
"""Values a side below which there is no interval: complete separation of 3 from 3 is chance in 1 of 10."""
SERIAL = 8
"""Values a side from which the dependence of neighbours can be estimated; simulated in tests/analyzers/test_steps.py."""
MOST_UNPAIRED = 250
"""Values a side that are compared pair by pair: 62,500 quotients."""


def unpaired(a: ArrayLike, b: ArrayLike) -> Ratio:
    """The speed-up of b over a where nothing pairs their values, each in order of time.

    `value` is the median of all quotients of a value of a and one of b; the interval is the rank-sum test's, whatever the
    distribution, for as many values as say as much without depending on their neighbours. Below SERIAL values it holds
    all quotients and reaches beyond them by as much as the values of a side differ. Simulated with a dependence of 0 to
    0.7 it misses in 2 to 6 % of the cases from SERIAL on, in at most 5 % below; below FEWEST there is none. Of more than
    MOST_UNPAIRED the medians of as many stretches stand for them. Raises AnalyzeError on times that are not above 0.
    """
    x, y = (_stretches(positive(*side)) for side in ((a, "times before"), (b, "times after")))
    n = min(int(x.size), int(y.size))
    if not n:
        return Ratio()
    logs = np.sort((np.log(x)[:, None] - np.log(y)[None, :]).ravel())
    value = math.exp(float(np.median(logs)))
    if n < FEWEST:
        return Ratio(value=value, n=n)
    edges = _all_quotients(x, y, logs) if n < SERIAL else _rank_sum_interval(x, y, logs)
    low, high = (math.exp(edge) for edge in edges)
    return Ratio(value, low, high, n, word(low, high, THRESHOLD), 1, (high - low) / 2 / value)


def _stretches(x: Array) -> Array:
    if x.size <= MOST_UNPAIRED:
        return x
    return np.array([float(np.median(part)) for part in np.array_split(x, MOST_UNPAIRED)])


def _all_quotients(x: Array, y: Array, logs: Array) -> tuple[float, float]:
    """Range of the sorted `logs` of quotients, widened by the wider side's own width."""
    width = max(math.log(side.max() / side.min()) for side in (x, y))
    return float(logs[0]) - width, float(logs[-1]) + width


def _rank_sum_interval(x: Array, y: Array, logs: Array) -> tuple[float, float]:
    """Rank-sum interval of the sorted `logs` of quotients, by normal approximation."""
    n, m = _own_values(x), _own_values(y)
    spread = math.sqrt(n * m * (n + m + 1) / 12)
    inside = max(0, math.floor(n * m / 2 - NormalDist().inv_cdf((1 + LEVEL) / 2) * spread)) / (n * m)
    at = max(1, math.floor(inside * logs.size)) - 1
    return (float(logs[at]), float(logs[-1 - at])) if inside else _all_quotients(x, y, logs)


def _own_values(x: Array) -> int:
    """Effective sample size n (1 - r) / (1 + r); r: bias-corrected lag-1 rank correlation."""
    n = int(x.size)
    if np.ptp(x) == 0:
        return n
    ranks = np.argsort(np.argsort(x, kind="stable"), kind="stable").astype(np.float64)
    seen = float(np.corrcoef(ranks[:-1], ranks[1:])[0, 1])
    depend = min(0.95, max(0.0, (n * seen + 1) / (n - 3)))
    return max(1, math.floor(n * (1 - depend) / (1 + depend)))
