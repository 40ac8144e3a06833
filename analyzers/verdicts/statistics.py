"""Medians, intervals and verdicts of times, robust against outliers and drift.

Reference and candidate are timed in rounds, each visiting both in random order. A round gives one ratio,
median(reference) / median(candidate), in which slow drift cancels. `value` is the median of the rounds' ratios, its
interval the percentiles of medians of resampled rounds (samples within a round are dependent). The verdict is
speedup.word's of that interval, and inconclusive below MIN_ROUNDS rounds.

With several processes, each has the median of its rounds, `value` is the mean of these (of logarithms), and the
interval is Student's over processes: it holds for the next run, not for one more round of this one. If the processes
differ by no more than their own rounds explain, the width comes from resampling these; two may agree by luck, so
their interval is widened. If one process was enough (campaigns), an assumed difference between processes is added.

tests/analyzers/test_statistics.py simulates 2 % drift, 2 % outliers, noise of 0.5 to 5 %, errors independent or AR(1),
12 to 34 rounds of 3, and 1 to 5 processes: equal sides get at most 1 % false verdicts, intervals miss 1 in 1 to 8 % of
the runs, and a true 3 % is found in every run at 0.5 % noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analyzers.errors import AnalyzeError
from analyzers.verdicts.speedup import word
from collectors.caveat import Caveat

Array: TypeAlias = NDArray[np.float64]

NAN = math.nan
LEVEL = 0.95
_TAILS = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
RESAMPLES = 4000
"""Resamples for an interval's ends; Efron and Tibshirani ask for 1,000 or more for percentiles."""
SEED = 20_261_120

MIN_ROUNDS = 6
"""Fewest rounds: below six no order statistic bounds a median at 95 %: 1 - 2 / 2**5 = 0.94."""

_MATTERS = 0.005
"""Relative drift from which there is a caveat: half of a verdict's threshold."""
_CHUNK = 4_000_000
_ENOUGH = 1000
"""Resamples for a variance; an interval's ends take more."""
_TWO = 3.5
"""Factor on the half-width of two agreeing processes, for 95 % coverage at any difference."""


@dataclass(frozen=True)
class Spread:
    """Robust figures of a sample, in its unit.

    `low`, `high`: distribution-free 95 % interval of the median, over medians of rounds if given, Student's over
    several `processes`; NaN below six values. `within`: relative half-width from one process's values, or from the
    rounds of several.
    """

    n: int = 0
    median: float = NAN
    low: float = NAN
    high: float = NAN
    drift: float = 0.0
    processes: int = 1
    within: float = NAN

    @property
    def precision(self) -> float:
        """Half-width of the median's interval over the median; NaN without an interval."""
        return (self.high - self.low) / 2 / self.median if self.median else NAN

    def reached(self, target: float) -> bool:
        """Whether the rounds determine the median to a relative half-width of `target`."""
        return self.within <= target


def summary(samples: ArrayLike, rounds: ArrayLike | None = None, processes: ArrayLike | None = None) -> Spread:
    """Robust figures of samples in the order they were taken; nothing is removed.

    `rounds`: round of each sample; the interval then rests on round medians, which depend on each other less
    than neighbours in a round. `processes`: process of each sample, all of a round in one. Raises AnalyzeError on a
    value that is not finite.
    """
    x = _finite(samples, "samples")
    if x.size == 0:
        return Spread()
    median = float(np.median(x))
    names, blocks = (np.arange(x.size), x) if rounds is None else _round_medians(x, _same_length(rounds, x))
    low, high = median_interval(blocks if blocks.size >= MIN_ROUNDS else x)
    count, within = 1, (high - low) / 2 / median if median else NAN
    if rounds is not None and processes is not None and blocks.min() > 0:
        over = _over_processes(np.log(blocks), _processes_of(names, rounds, processes))
        if over is not None:
            count, _, low, high, within = over
    return Spread(x.size, median, min(low, median), max(high, median), drift(x), count, within)


def median_interval(samples: ArrayLike) -> tuple[float, float]:
    """Order statistics that enclose the median with 95 %; NaN if too few."""
    x = np.sort(_finite(samples, "samples"))
    k = _order_rank(int(x.size))
    if k < 1:
        return NAN, NAN
    return float(x[k - 1]), float(x[x.size - k])


def _order_rank(n: int) -> int:
    """The largest k with P(Bin(n, 1/2) < k) <= 2.5 %; 0 if there is none."""
    tail = (1 - LEVEL) / 2
    if n > 1000:
        return int(n / 2 - NormalDist().inv_cdf(1 - tail) * math.sqrt(n) / 2)
    chances = np.cumsum([math.comb(n, k) / 2**n for k in range(n + 1)])
    return int(np.count_nonzero(chances <= tail))


def drift(samples: ArrayLike) -> float:
    """Relative change from the first to the last third of a series in time order.

    0 unless it is beyond chance (3.5 standard errors of Spearman's rank correlation) and large enough to matter.
    """
    x = _finite(samples, "samples")
    if x.size < 9 or np.ptp(x) == 0:
        return 0.0
    third = x.size // 3
    change = float(np.median(x[-third:]) / np.median(x[:third]) - 1)
    ranks = np.argsort(np.argsort(x, kind="stable"), kind="stable").astype(np.float64)
    rho = float(np.corrcoef(ranks, np.arange(x.size, dtype=np.float64))[0, 1])
    return change if abs(rho) * math.sqrt(x.size - 1) > 3.5 and abs(change) > _MATTERS else 0.0


@dataclass(frozen=True)
class Ratio:
    """A speed-up, reference time / candidate time: above 1 the candidate is faster.

    `low`, `high`: 95 % interval over `n` rounds of `processes`; `verdict`: see the module. `within`: relative
    half-width from the rounds only. `slack`: factor beyond the interval that recording may have caused.
    """

    value: float = NAN
    low: float = NAN
    high: float = NAN
    n: int = 0
    verdict: str = "inconclusive"
    processes: int = 1
    within: float = NAN
    slack: float = 1.0

    @property
    def precision(self) -> float:
        """Half-width of the interval over the value."""
        return (self.high - self.low) / 2 / self.value


def ratio(
    a: ArrayLike,
    b: ArrayLike,
    rounds: ArrayLike,
    rounds_b: ArrayLike | None = None,
    processes: ArrayLike | None = None,
    *,
    spread: float = 0.0,
    resamples: int = RESAMPLES,
) -> Ratio:
    """The speed-up of b over a (times of reference and candidate) with its interval and verdict.

    `rounds`: round of each value of a, and of b unless `rounds_b` is given; rounds that lack one side are left out.
    `processes`: process of each value of a, all of a round in one. `spread`: assumed relative difference of another
    process if all values are of one; 0 leaves it out of the interval. The result is deterministic. Raises AnalyzeError
    on times that are not above 0, or lengths that differ.
    """
    x, y = positive(a, "reference times"), positive(b, "candidate times")
    rx = _same_length(rounds, x)
    ry = _same_length(rounds if rounds_b is None else rounds_b, y)
    names, logs = _round_ratios(x, rx, y, ry)
    n = int(logs.size)
    if n == 0:
        return Ratio()
    value = math.exp(float(np.median(logs)))
    if n < 2:
        return Ratio(value=value, n=n)
    over = None if processes is None else _over_processes(logs, _processes_of(names, rx, processes), resamples)
    if over is not None:
        count, value, low, high, within = over
        return Ratio(value, low, high, n, verdict(low, high, n), count, within)
    low, high = (math.exp(edge) for edge in np.quantile(_medians(logs, resamples), _TAILS))
    within = (high - low) / 2 / value
    low, high = widened(value, low, high, spread)
    return Ratio(value, low, high, n, verdict(low, high, n), 1, within)


def widened(value: float, low: float, high: float, spread: float) -> tuple[float, float]:
    """Interval with an independent relative half-width added, as squares."""
    more = math.log1p(spread)
    if not (more > 0 and low > 0):
        return low, high
    below, above = math.hypot(math.log(value / low), more), math.hypot(math.log(high / value), more)
    return value * math.exp(-below), value * math.exp(above)


def verdict(low: float, high: float, n: int) -> str:
    """Verdict for an interval of a speed-up over n rounds."""
    return "inconclusive" if n < MIN_ROUNDS else word(low, high)


_Over: TypeAlias = "tuple[int, float, float, float, float]"
"""Number of processes, their mean with its interval, and the half-width from their rounds."""


def _processes_of(names: NDArray[Any], rounds: ArrayLike, processes: ArrayLike) -> NDArray[Any]:
    known, first = np.unique(np.asarray(rounds).ravel(), return_index=True)
    return np.asarray(processes).ravel()[first][np.searchsorted(known, names)]


def _over_processes(logs: Array, processes: NDArray[Any], resamples: int = RESAMPLES) -> _Over | None:
    """Over processes, from one logarithm per round; None for one process."""
    groups = [logs[processes == one] for one in np.unique(processes)]
    count = len(groups)
    if count < 2:
        return None
    centres = np.array([np.median(group) for group in groups])
    own = [float(np.var(_medians(group, min(resamples, _ENOUGH)))) for group in groups if group.size > 1]
    explained, seen = float(np.mean(own)) if own else 0.0, float(centres.var(ddof=1))
    within = NormalDist().inv_cdf((1 + LEVEL) / 2) * math.sqrt(explained / count)
    agreed = within * (_TWO if count == 2 else 1.0)
    half = _student(count - 1) * math.sqrt(seen / count) if seen > explained else agreed
    value = float(centres.mean())
    return count, math.exp(value), math.exp(value - half), math.exp(value + half), within


def _student(freedom: int) -> float:
    """t with P(|T| < t) = 95 %, by integrating cos ** (freedom - 1)."""
    angles = np.linspace(0.0, math.pi / 2, 20_001)
    density = np.cos(angles) ** (freedom - 1)
    mass = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return math.sqrt(freedom) * math.tan(float(np.interp(LEVEL, mass / mass[-1], angles)))


def _medians(values: Array, resamples: int) -> Array:
    generator = np.random.default_rng(SEED)
    medians = np.empty(resamples)
    step = max(1, _CHUNK // values.size)
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        picks = generator.integers(0, values.size, size=(count, values.size))
        medians[start : start + count] = np.median(values[picks], axis=1)
    return medians


def _round_ratios(x: Array, rx: NDArray[Any], y: NDArray[Any], ry: NDArray[Any]) -> tuple[NDArray[Any], Array]:
    """Rounds that have both, in order, and log(median of x / median of y) of each."""
    rounds_x, medians_x = _round_medians(x, rx)
    rounds_y, medians_y = _round_medians(y, ry)
    names, at_x, at_y = np.intersect1d(rounds_x, rounds_y, assume_unique=True, return_indices=True)
    logs: Array = np.log(medians_x[at_x]) - np.log(medians_y[at_y])
    return names, logs


def _round_medians(x: Array, rounds: NDArray[Any]) -> tuple[NDArray[Any], Array]:
    names, index = np.unique(rounds, return_inverse=True)
    counts, ordered = np.bincount(index, minlength=len(names)), x[np.lexsort((x, index))]
    starts = np.cumsum(counts) - counts
    return names, (ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2


def precision_caveat(spreads: Mapping[str, Spread], target: float) -> Caveat | None:
    """Caveat about medians not known to `target` (relative half-width); else None."""
    listed = [
        f"{name} {'unknown' if math.isnan(s.within) else f'{s.within:.2%}'} after {s.n}"
        for name, s in spreads.items()
        if not s.reached(target)
    ]
    what, fix = f"the wanted precision of {target:.2%} was not reached", "raise the time budget, or stop other work"
    return Caveat(what, ", ".join(listed), fix) if listed else None


def _finite(values: ArrayLike, name: str) -> Array:
    x = np.asarray(values, dtype=np.float64).ravel()
    if not np.all(np.isfinite(x)):
        raise AnalyzeError(f"{name}: a value is not a finite number", fix="leave failed samples out before analysing")
    return x


def positive(values: ArrayLike, name: str) -> Array:
    x = _finite(values, name)
    if x.size and x.min() <= 0:
        raise AnalyzeError(f"{name}: {x.min()!r} s is not above 0", fix="leave failed samples out before analysing")
    return x


def _same_length(rounds: ArrayLike, x: Array) -> NDArray[Any]:
    found = np.asarray(rounds).ravel()
    if found.size != x.size:
        raise AnalyzeError(f"{x.size} times but {found.size} rounds")
    return found
