"""History of a sample or a library: changes of a time, and what changed with them.

A series is one implementation on one device, in seconds. Several devices are compared by time over the lower bound. A
regression is a suspicion until the sample has been measured again.

Change points are found by e-divisive: D. S. Matteson and N. A. James, A Nonparametric Approach for Multiple Change
Point Analysis of Multivariate Data, JASA 109 (2014), with exponent 1; its use for benchmarks: D. Daly et al., The Use
of Change Point Detection to Identify Software Performance Regressions in a Continuous Integration System, ICPE 2020.
No distribution is assumed: a segment is cut where the energy distance between both sides is largest, unless one of its
permutations has as large a one (J. Besag and P. Clifford, Sequential Monte Carlo p-values, Biometrika 78, 1991).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median, quantiles
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from profkit.campaign.index import Index, Row

NAN = math.nan
LEAST = 0.01
"""Smallest change of a time to report: profkit's threshold for "same"."""
PERMUTATIONS = 499
"""Permutations that a cut must beat: a quiet series is cut in one of 500 cases."""
SHORTEST = 3
"""Fewest values on each side of a cut."""
LONGEST = 300
"""Most values of a segment: a permutation's cost grows quadratically."""
SEED = 20_261_122
OTHERWISE = ("method", "l2", "precision", "inputs", "isolated")
"""Facts that make two times incomparable."""
REFERENCE = "the reference's time"

Facts = Mapping[str, Any]
_Point = tuple[Row, Facts]
"""One run of a series, and facts that may explain a change of its time."""


class Level(msgspec.Struct, frozen=True):
    """Runs between two changes: `first` is an index, `time` [s] and `lower_bound` are medians."""

    first: int
    runs: int
    since: str
    time: float
    lower_bound: float


class Change(msgspec.Struct, frozen=True):
    """A change of the level: `ratio` = time after / before.

    `causes`: simultaneous changes, in words. `measured`: the method differs, so times are not comparable.
    """

    at: int
    path: str
    created: str
    ratio: float
    causes: tuple[str, ...]
    measured: bool


class Series(msgspec.Struct, frozen=True):
    """One implementation of a sample on one device, oldest run first."""

    sample: str
    impl: str
    device: str
    rows: tuple[Row, ...]
    levels: tuple[Level, ...]
    changes: tuple[Change, ...]

    @property
    def suspect(self) -> Change | None:
        """The newest change, if it is slower and the method does not explain it."""
        last = self.changes[-1] if self.changes else None
        return last if last is not None and last.ratio > 1 + LEAST and not last.measured else None


def histories(index: Index, *, sample: str = "", device: str = "", since: str = "") -> list[Series]:
    """Series of one sample or of all, with changes since a time."""
    rows = [row for row in reversed(index.rows(sample=sample, device=device, references=True)) if _counts(row)]
    references = {row.path: row.time for row in rows if row.role == "reference"}
    known, series = index.facts, dict[tuple[str, str, str], list[_Point]]()
    for row in rows:
        if row.role == "reference":
            continue
        facts = known[row.path, row.impl]
        if row.path in references:
            facts = {**facts, REFERENCE: references[row.path]}
        series.setdefault((row.sample, row.impl, row.device), []).append((row, facts))
    return [_judged(series[key], since) for key in sorted(series)]


def _counts(row: Row) -> bool:
    """Whether a run has the time of a correct answer."""
    return row.status == "done" and row.state in ("", "ok") and row.time > 0 and row.word not in ("wrong", "impossible")


def _judged(points: Sequence[_Point], since: str) -> Series:
    rows = tuple(row for row, _ in points)
    times = [row.time for row in rows]
    edges = [0, *level_changes(times), len(rows)]
    levels = tuple(_level(rows, first, end) for first, end in pairwise(edges))
    changes = [_change(points, *span) for span in zip(edges, edges[1:], edges[2:], strict=False)]
    shown = tuple(change for change in changes if change.created >= since)
    return Series(rows[0].sample, rows[0].impl, rows[0].device, rows, levels, shown)


def level_changes(times: Sequence[float]) -> list[int]:
    """Change points of at least LEAST; smaller ones are merged, the smallest first."""
    found = cuts([math.log(time) for time in times])
    while found:
        edges = [0, *found, len(times)]
        levels = [median(times[a:b]) for a, b in pairwise(edges)]
        sizes = [abs(math.log(b / a)) for a, b in pairwise(levels)]
        least = min(range(len(sizes)), key=sizes.__getitem__)
        if sizes[least] >= math.log1p(LEAST):
            break
        del found[least]
    return found


def cuts(values: Sequence[float]) -> list[int]:
    """Indices of level changes among the newest LONGEST values; deterministic."""
    series = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(SEED)
    found: list[int] = []
    waiting = [(max(0, len(series) - LONGEST), len(series))]
    while waiting:
        low, high = waiting.pop()
        at = _cut(series[low:high], rng)
        if at is not None:
            found.append(low + at)
            waiting += [(low, low + at), (low + at, high)]
    return sorted(found)


def _cut(values: NDArray[np.float64], rng: np.random.Generator) -> int | None:
    """The best cut of one segment, None if it is not significant."""
    if len(values) < 2 * SHORTEST or np.ptp(values) == 0:
        return None
    apart = np.abs(values[:, None] - values[None, :])
    best, at = best_cut(apart)
    for _ in range(PERMUTATIONS):
        order = rng.permutation(len(values))
        if best_cut(apart[np.ix_(order, order)])[0] >= best:
            return None
    return at


def best_cut(apart: NDArray[np.float64]) -> tuple[float, int]:
    """(largest energy distance between both sides, weighted by their sizes; its cut).

    apart: distances of all pairs.
    """
    n = len(apart)
    cut = np.arange(SHORTEST, n - SHORTEST + 1)
    left, right = cut, n - cut
    sums = apart.cumsum(0).cumsum(1)
    within = sums[cut - 1, cut - 1] / 2
    between = sums[cut - 1, -1] - 2 * within
    beyond = sums[-1, -1] / 2 - within - between
    q = 2 * between / n - 2 * right / (n * (left - 1)) * within - 2 * left / (n * (right - 1)) * beyond
    place = int(np.argmax(q))
    return float(q[place]), int(cut[place])


def _level(rows: Sequence[Row], first: int, end: int) -> Level:
    part = rows[first:end]
    lower_bounds = [row.lower_bound for row in part if math.isfinite(row.lower_bound)]
    return Level(
        first, len(part), part[0].created, median(r.time for r in part), median(lower_bounds) if lower_bounds else NAN
    )


def _change(points: Sequence[_Point], low: int, at: int, high: int) -> Change:
    """The change at a point, from the points from `low` to those before `high`."""
    before, after = points[low:at], points[at:high]
    facts = [one for _, one in before], [one for _, one in after]
    words = dict(_words(*facts))
    return Change(
        at=at,
        path=after[0][0].path,
        created=after[0][0].created,
        ratio=median(row.time for row, _ in after) / median(row.time for row, _ in before),
        causes=(*words.values(), *_reference(*facts)),
        measured=bool(words.keys() & set(OTHERWISE)),
    )


def _words(before: Sequence[Facts], after: Sequence[Facts]) -> Iterator[tuple[str, str]]:
    """(name, "driver 580.1 -> 590.2") of facts that differ across the change."""
    near = before[-SHORTEST:], after[:SHORTEST]
    for name in dict.fromkeys(name for one in (*near[0], *near[1]) for name in one):
        old, new = ([one[name] for one in part if name in one] for part in near)
        if name != REFERENCE and old and new and not set(old) & set(new):
            yield name, f"{name} {_short(old[-1])} -> {_short(new[0])}"


def _reference(before: Sequence[Facts], after: Sequence[Facts]) -> list[str]:
    """The change of the reference's time, if there is one: the machine moved."""
    old, new = ([one[REFERENCE] for one in part if REFERENCE in one] for part in (before, after))
    if min(len(old), len(new)) < SHORTEST:
        return []
    was, now = quantiles(old, n=4), quantiles(new, n=4)
    change, apart = now[1] / was[1] - 1, now[0] > was[2] or now[2] < was[0]
    return [f"{REFERENCE} {change:+.1%}"] if apart and abs(change) > LEAST else []


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
