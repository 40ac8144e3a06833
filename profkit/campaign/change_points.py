"""Where a series changes its level: e-divisive, after Matteson and James.

D. S. Matteson and N. A. James, A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data,
JASA 109 (2014), with exponent 1; its use for benchmarks: D. Daly et al., The Use of Change Point Detection to
Identify Software Performance Regressions in a Continuous Integration System, ICPE 2020. No distribution is assumed: a
segment is cut where the energy distance between what lies left and right of the cut is the largest, unless one of
its permutations has as large a one. As in those, each half is then looked at in the same way; as in none of them, the
permutations end with the first that does as well (J. Besag and P. Clifford, Sequential Monte Carlo p-values,
Biometrika 78, 1991), which makes a quiet series cheap.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PERMUTATIONS = 499
"""A cut counts when none of so many permutations does as well: a quiet series is cut in one of 500 cases."""
SHORTEST = 3
"""Fewest values on either side of a cut."""
LONGEST = 300
"""Most values of a segment: a permutation's cost grows with their square."""
SEED = 20_261_122

Values = NDArray[np.float64]


def cuts(values: Sequence[float], seed: int = SEED) -> list[int]:
    """Indices of level changes among the newest LONGEST values; reproducible by `seed`."""
    series = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    found: list[int] = []
    waiting = [(max(0, len(series) - LONGEST), len(series))]
    while waiting:
        low, high = waiting.pop()
        at = _cut(series[low:high], rng)
        if at is not None:
            found.append(low + at)
            waiting += [(low, low + at), (low + at, high)]
    return sorted(found)


def _cut(values: Values, rng: np.random.Generator) -> int | None:
    """The best cut of one segment, None when it is not significant."""
    n = len(values)
    if n < 2 * SHORTEST or np.ptp(values) == 0:
        return None
    apart = np.abs(values[:, None] - values[None, :])
    weights = _Weights(n)
    best, at = weights.best(apart)
    for _ in range(PERMUTATIONS):
        order = rng.permutation(n)
        if weights.best(apart[np.ix_(order, order)])[0] >= best:
            return None
    return at


class _Weights:
    """Everything of the statistic that depends on the length alone: for a cut t and an end k,

    Q = 2/(m+n) B - 2n/((m+n)(m-1)) L - 2m/((m+n)(n-1)) R  with m = t, n = k - t values on either side,

    B, L, R the sums of the distances between the sides and, each pair once, within the left and the right one. With W
    the distances within the first values, and S those of the first t to the first k, it is L = W(t), B = S - 2 W(t) and
    R = W(k) - W(t) - B.
    """

    def __init__(self, n: int) -> None:
        cut, end = np.arange(n + 1.0)[:, None], np.arange(n + 1.0)[None, :]
        left, right = np.broadcast_arrays(cut, end - cut)
        allowed = (left >= SHORTEST) & (right >= SHORTEST)
        both = np.where(allowed, left + right, 1.0)
        between = np.where(allowed, 2 / both, 0.0)
        within_left = np.where(allowed, 2 * right / (both * np.maximum(left - 1, 1)), 0.0)
        within_right = np.where(allowed, 2 * left / (both * np.maximum(right - 1, 1)), 0.0)
        self.block = between + within_right
        self.at_cut = within_right - within_left - 2 * self.block
        self.at_end = -within_right
        self.bar = np.where(allowed, 0.0, -np.inf)
        self.sums = np.zeros((n + 1, n + 1))

    def best(self, apart: Values) -> tuple[float, int]:
        """(the largest Q, its cut) over all cuts and ends."""
        sums = self.sums
        np.cumsum(apart, axis=0, out=sums[1:, 1:])
        np.cumsum(sums, axis=1, out=sums)
        within = np.diagonal(sums) / 2
        q = self.block * sums
        q += self.at_cut * within[:, None]
        q += self.at_end * within[None, :]
        q += self.bar
        place = int(np.argmax(q))
        return float(q.flat[place]), place // len(sums)
