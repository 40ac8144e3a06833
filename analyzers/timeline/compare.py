"""Compare programs by their steady step: duration, parts and work, before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from analyzers.compare import NOT_COMPARABLE, UNKNOWN, Row, apart_of, ends, of_ratio, unlike
from analyzers.errors import AnalyzeError
from analyzers.records import plain
from analyzers.timeline.budget import SLICES, Budget
from analyzers.timeline.intervals import Times, passed, union
from analyzers.verdicts.speedup import THRESHOLD, word
from analyzers.verdicts.statistics import LEVEL, Ratio, positive
from collectors.caveat import Caveat, unique

SCHEMA = "profkit-compare-steps/1"
FORMULA = "step time before / step time after: median of the quotients of every step of one and every step of the other"
APART = {"windows": "window", "programs": "program"}
"""Codes of caveats about differences that make steps incomparable, and what they name."""
UNLIKE = Ratio(verdict=NOT_COMPARABLE)
STEPS, PASSAGES, RECORD = "steps", "passages", "record"
_KINDS = {"repeating": STEPS, "after": STEPS, "range": PASSAGES, "all": RECORD}
APPEARED, GONE = "appeared", "gone"
SHARED = 0.5
"""Share of the time in equal names for two versions of one program; convention."""
FEWEST = 4
"""Fewest values per side for an interval: 3 and 3 separate by chance in 1 of 10 cases."""
SERIAL = 8
"""Values per side from which autocorrelation can be estimated; simulated in tests/analyzers/test_steps.py."""
MOST_UNPAIRED = 250
"""Most values per side for all pairwise quotients: 62,500."""


@dataclass(frozen=True)
class Steps:
    """Steps of a window: `lengths` and `busy` (GPU working) [s], shape (n,).

    A row of `work`: a name, its kind and its `count` per step; `times` [s], shape (works, n). One average step if the
    steps are unknown.
    """

    lengths: Times
    busy: Times
    work: pd.DataFrame
    times: Times


def each_step(frame: pd.DataFrame, found: Budget) -> Steps:
    """Steps of a budget. frame: the launches of the budget, with start and time [s]."""
    marks, edges = np.array(found.steady.marks, dtype=np.int64), np.array(found.edges)
    ordered = frame if frame["start"].is_monotonic_increasing else frame.sort_values("start", kind="stable")
    part = ordered.iloc[found.steady.first : found.steady.end]
    keys = part[["kernel", "kind"]].astype(str).set_axis(["name", "kind"], axis=1)
    code = keys.groupby(["name", "kind"], sort=False).ngroup().to_numpy()
    work = keys.drop_duplicates(ignore_index=True).assign(count=np.bincount(code) / found.parts)
    if not len(marks):
        times = np.bincount(code, weights=part["time"], minlength=len(work))[:, None] / found.parts
        return Steps(np.array([found.step]), np.array([found.busy]), work, times)
    number = np.searchsorted(marks, np.arange(found.steady.first, found.steady.end), side="right") - 1
    times = np.zeros((len(work), len(marks) - 1))
    np.add.at(times, (code, number), part["time"].to_numpy(dtype="float64"))
    stretches = union(part, float(edges[0]), float(edges[-1]))
    return Steps(np.diff(edges), np.diff(passed(stretches, edges)), work, times)


@dataclass(frozen=True)
class Piece:
    """A kernel, copy or fill by name: seconds and launches per step, before and after."""

    name: str
    kind: str
    word: str
    before: float
    after: float
    count_before: float
    count_after: float
    ratio: Ratio = UNKNOWN

    @property
    def gained(self) -> float:
        """Change in seconds per step; above 0: slower."""
        return self.after - self.before

    def to_dict(self) -> dict[str, Any]:
        known = asdict(self)
        del known["ratio"]
        return known | {key: one for key, one in of_ratio(self.ratio).items() if key != "verdict"}


@dataclass(frozen=True)
class Rung:
    """Steps of a program on the device with the longest step.

    `within`: range of passages; `slowed`: a profiler lengthened its launches. `ratio` and `pieces` compare with the
    previous program, `since` and `busy` with the first. Speed-ups are old / new; inconclusive and NaN for the first, and
    for different windows.
    """

    label: str
    budget: Budget
    steps: Steps
    device: str = ""
    devices: int = 1
    within: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    slowed: bool = False
    ratio: Ratio = UNKNOWN
    busy: Ratio = UNKNOWN
    since: Ratio = UNKNOWN
    pieces: tuple[Piece, ...] = ()

    @property
    def window(self) -> str:
        return _KINDS[self.budget.steady.found]

    @property
    def trains(self) -> bool:
        """Whether torch named a step of an optimizer in the window."""
        return any("Optimizer.step#" in one.range for one in self.budget.spent)

    @property
    def counted(self) -> int:
        """Steps or passages in the window; 0 for a record without repeating steps."""
        return 0 if self.window == RECORD else self.budget.parts

    @property
    def known(self) -> int:
        """Steps of known duration."""
        return len(self.steps.lengths) if self.budget.edges else 0

    @property
    def launched(self) -> float:
        """Kernels, copies and fills per step."""
        return (self.budget.launches + self.budget.copies + self.budget.fills) / self.budget.parts

    def part(self, kind: str) -> float:
        """Seconds per step of a slice."""
        return float(getattr(self.budget, kind)) / self.budget.parts

    @property
    def time(self) -> float:
        """Average seconds per step."""
        return self.budget.step

    @property
    def verdict(self) -> str:
        return self.ratio.verdict

    def to_dict(self) -> dict[str, Any]:
        one, compared = self.budget, {"step": self.ratio, "gpu": self.busy, "total": self.since}
        return {
            "label": self.label,
            "device": self.device,
            "window": {"kind": self.window, "count": self.counted, "range": self.within},
            "time": one.step,
            "shortest": one.shortest,
            "longest": one.longest,
            "known": self.known,
            "busy": one.busy,
            "idle": one.idle / one.parts,
            "slices": {kind: self.part(kind) for kind in SLICES},
            "kernels": one.launches / one.parts,
            "copies": one.copies / one.parts,
            "fills": one.fills / one.parts,
            "gaps": one.gaps / one.parts,
            **{name: of_ratio(ratio) for name, ratio in compared.items()},
            "slack": self.since.slack,
        }


class Programs(Row):
    """Programs in order, each compared with the previous and the first: steps of Rung."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """Programs without an interval: too few steps, or unknown durations."""
        return tuple(one.label for one in self.rungs[1:] if math.isnan(one.since.low))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: seconds of a step, NaN as None."""
        return plain(
            {
                "schema": SCHEMA,
                "convention": {"name": "ratio", "formula": FORMULA},
                "steps": [one.to_dict() for one in self.rungs],
                "work": [{"label": one.label} | piece.to_dict() for one in self.rungs for piece in one.pieces],
                "caveats": msgspec.to_builtins(self.caveats),
                "apart": list(self.apart),
            }
        )


def compare_steps(programs: Sequence[Rung]) -> Programs:
    """Compare each program with the one before it and the first. Raises AnalyzeError."""
    if len(programs) < 2:
        raise AnalyzeError("a comparison needs two programs", fix="name BEFORE and AFTER")
    first = programs[0]
    rungs = [first]
    for before, after in pairwise(programs):
        busy = _ratio(first.steps.busy, after.steps.busy) if _alike(first, after) else UNLIKE
        ratio, since = (_of_steps(one, after) if _alike(one, after) else UNLIKE for one in (before, first))
        pieces = _pieces(before, after) if _alike(before, after) else ()
        rungs.append(replace(after, ratio=ratio, busy=busy, since=since, pieces=pieces))
    caveats, apart = unlike([(one.label, one.facts) for one in programs])
    more = [caveat for a, b in pairwise(rungs) for caveat in _windows(a, b)]
    differ = dict.fromkeys(APART[one.code] for one in more if one.code in APART)
    return Programs(tuple(rungs), unique([*caveats, *more]), (*apart, *differ))


def _alike(a: Rung, b: Rung) -> bool:
    """Whether they are of one device and tool, of windows of one kind and of one program."""
    return not apart_of(a.facts, b.facts) and not any(_apart(a, b))


def _shared(pieces: Sequence[Piece]) -> float:
    """Share of the time in work of both."""
    longest = [(max(one.before, one.after), one.word in (APPEARED, GONE)) for one in pieces]
    every = sum(time for time, _ in longest)
    return sum(time for time, alone in longest if not alone) / every if every else 1.0


def _of_steps(before: Rung, after: Rung) -> Ratio:
    """Speed-up of a step as recorded. `slack`: what a profiler's cost of a launch can explain."""
    found, pair = _ratio(before.steps.lengths, after.steps.lengths), (before, after)
    costs = [(one.time - one.budget.least) / one.launched for one in pair if one.slowed and one.launched]
    old, new = (one.time - min(costs, default=0.0) * one.launched * one.slowed for one in pair)
    if not (costs and old > 0 and new > 0 and found.low > 0):
        return found
    excess = old / new / (before.time / after.time)
    slacked = replace(found, slack=(min if found.value > 1 else max)(1.0, excess))
    return replace(slacked, verdict=word(*ends(slacked), THRESHOLD))


def _ratio(before: Times, after: Times) -> Ratio:
    """Speed-up of a piece of work; unknown if it took no time in some step."""
    return unpaired(before, after) if before.all() and after.all() else UNKNOWN


def _pieces(before: Rung, after: Rung) -> tuple[Piece, ...]:
    """Work of both by name and kind, the largest change of a step's time first."""
    none = ("", 0.0, np.zeros(1))
    one, other = (_rows(taken.steps) for taken in (before, after))
    found = []
    for key in dict.fromkeys([*one, *other]):
        (name, count, times), (spelt, count_after, times_after) = one.get(key, none), other.get(key, none)
        ratio = _ratio(times, times_after) if name and spelt else UNKNOWN
        word = ratio.verdict if name and spelt else GONE if name else APPEARED
        means = float(times.mean()), float(times_after.mean())
        found.append(Piece(name or spelt, key[1], word, *means, count, count_after, ratio))
    return tuple(sorted(found, key=lambda one: -abs(one.gained)))


def _rows(steps: Steps) -> dict[tuple[str, str], tuple[str, float, Times]]:
    """(name in a common spelling, kind) -> its name, count per step, and seconds of each step."""
    rows = zip(*(steps.work[name] for name in ("name", "kind", "count")), steps.times, strict=True)
    return {(name.replace(" ", ""), kind): (name, float(count), times) for name, kind, count, times in rows}


def _apart(a: Rung, b: Rung) -> Iterator[Caveat]:
    """Why their steps do not compare. Kernel names alone do not tell: fusion changes them."""
    if (a.window, a.within) != (b.window, b.within):
        told = "; ".join(f"{one.label}: {_said(one)}" for one in (a, b))
        fix = "record both in the same way: enough steps for a steady state, or the same --range"
        yield Caveat("the windows differ: no speed-up is given", told, fix, "windows")
    elif a.trains != b.trains and (shared := _shared(_pieces(a, b))) < SHARED:
        told = f"only {(a if a.trains else b).label} runs an optimizer, {shared:.0%} of the time is in kernels of both"
        what = f"{a.label} and {b.label} look like different programs: no speed-up is given"
        yield Caveat(what, told, "compare versions of one program", "programs")


def _windows(a: Rung, b: Rung) -> Iterator[Caveat]:
    yield from _apart(a, b)
    if not _alike(a, b):
        return
    if a.devices != b.devices:
        told, fix = f"{a.label}: {a.devices}, {b.label}: {b.devices}", "a step may be a different share of the work"
        yield Caveat("the number of processes and devices differs", told, fix, "devices")
    if few := [f"{one.label}: {one.known}" for one in (a, b) if one.known < FEWEST]:
        what = "too few timed steps for an interval"
        yield Caveat(what, ", ".join(few), "record more of them", "too-few-steps")
    if (shared := _shared(b.pieces)) < SHARED:
        told, fix = f"{shared:.0%} of the time is in kernels of both", "check that both run the same program"
        yield Caveat(f"{a.label} and {b.label} run different work", told, fix, "other-work")


def _said(one: Rung) -> str:
    if one.window == RECORD:
        return "the whole record, without repeating steps"
    return f"{one.counted} passages of {one.within}" if one.window == PASSAGES else f"{one.counted} steps"


def unpaired(a: ArrayLike, b: ArrayLike) -> Ratio:
    """The speed-up of b over a for unpaired values, each in time order.

    `value` is the median of all quotients, the interval the rank-sum test's for the effective sample sizes. Below
    SERIAL values it covers all quotients and more. In simulations with autocorrelation of 0 to 0.7 it misses in 2 to 6
    % of the cases from SERIAL on, in at most 5 % below. Raises AnalyzeError on times of 0.
    """
    x, y = (_stretches(positive(*side)) for side in ((a, "times before"), (b, "times after")))
    n = min(int(x.size), int(y.size))
    if not n:
        return Ratio()
    logs = np.sort((np.log(x)[:, None] - np.log(y)[None, :]).ravel())
    value = math.exp(float(np.median(logs)))
    if n < FEWEST:
        return Ratio(value=value, n=n)
    low, high = (math.exp(edge) for edge in _interval(x, y, logs))
    return Ratio(value, low, high, n, word(low, high, THRESHOLD), 1, (high - low) / 2 / value)


def _stretches(x: Times) -> Times:
    if x.size <= MOST_UNPAIRED:
        return x
    return np.array([float(np.median(part)) for part in np.array_split(x, MOST_UNPAIRED)])


def _interval(x: Times, y: Times, logs: Times) -> tuple[float, float]:
    """Rank-sum interval of the sorted `logs` of quotients, by normal approximation.

    For too few values the range of all quotients, widened by the wider side's own width.
    """
    inside = 0.0
    if min(x.size, y.size) >= SERIAL:
        n, m = _own_values(x), _own_values(y)
        spread = math.sqrt(n * m * (n + m + 1) / 12)
        inside = max(0, math.floor(n * m / 2 - NormalDist().inv_cdf((1 + LEVEL) / 2) * spread)) / (n * m)
    at = max(1, math.floor(inside * logs.size)) - 1
    width = 0.0 if inside else max(math.log(side.max() / side.min()) for side in (x, y))
    return (float(logs[at]), float(logs[-1 - at])) if inside else (float(logs[0]) - width, float(logs[-1]) + width)


def _own_values(x: Times) -> int:
    """Effective sample size n (1 - r) / (1 + r); r: bias-corrected lag-1 rank correlation."""
    n = int(x.size)
    if np.ptp(x) == 0:
        return n
    ranks = np.argsort(np.argsort(x, kind="stable"), kind="stable").astype(np.float64)
    seen = float(np.corrcoef(ranks[:-1], ranks[1:])[0, 1])
    depend = min(0.95, max(0.0, (n * seen + 1) / (n - 3)))
    return max(1, math.floor(n * (1 - depend) / (1 + depend)))
