"""Speed-ups over several input shapes, and their geometric mean.

Its interval follows from the intervals of the timed shapes: it describes this mean, not other shapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from analyzers.records import plain
from analyzers.verdicts import timing
from analyzers.verdicts.speedup import THRESHOLD
from analyzers.verdicts.statistics import Ratio
from analyzers.verdicts.verdict import Condition
from roofline.units import digits


@dataclass(frozen=True)
class Shape:
    """One set of inputs, as described: median seconds by implementation, speed-ups by candidate.

    `hosts`: host seconds to launch a call, by implementation; NaN unknown.
    """

    inputs: tuple[str, ...]
    times: Mapping[str, float] = field(default_factory=dict)
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    hosts: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; unknown numbers are None."""
        speedups = {name: _told(one) for name, one in self.ratios.items()}
        return {"inputs": list(self.inputs), "times": dict(self.times), "speedups": speedups}


def shape(inputs: Sequence[str], timings: pd.DataFrame, reference: str) -> Shape:
    """Figures of one shape from its samples."""
    samples = timing.check(timings)
    chosen = timing.choose(samples)
    timed = timing.spreads(chosen, samples)
    times = {name: one.spread.median for name, one in timed.items()}
    hosts = {name: one.host for name, one in timed.items()}
    return Shape(tuple(inputs), times, timing.speedups(chosen, reference), hosts)


def geometric(shapes: Sequence[Shape]) -> dict[str, Ratio]:
    """Candidate -> geometric mean of its speed-ups over several shapes."""
    names = [
        name for name in (shapes[0].ratios if len(shapes) > 1 else ()) if all(name in one.ratios for one in shapes)
    ]
    return {name: _mean([one.ratios[name] for one in shapes]) for name in names}


@dataclass(frozen=True)
class Program:
    """A program that makes the calls: shares of its recorded time, and calls per second of it.

    `takes`: time of the calls; `waits`: time saved without them, at the host's recorded pace; `busy`: time of GPU work.
    """

    takes: float
    waits: float
    busy: float
    calls: float

    def saved(self, ratio: Ratio, host: float) -> tuple[float, float]:
        """(least, most) share of the program's time saved by another duration of its calls.

        At two paces: the host launches as under the profiler, or is never late. host [s]: extra cost of launching a
        call; it counts at the first pace, as far as the program waits for the host there.
        """
        lengths = 1 / ratio.low, 1 / ratio.high
        late = self.calls * host * (1 - self.waits / self.takes) if self.takes else 0.0
        won = [self._recorded(one) - late for one in lengths]
        won += [self.takes / self.busy * (1 - one) for one in lengths]
        return min(won), max(won)

    def _recorded(self, length: float) -> float:
        takes, waits = self.takes, self.waits
        return min(takes * (1 - length), waits) if length <= 1 else min(0.0, takes * (1 - length) + takes - waits)


@dataclass(frozen=True)
class Weighted:
    """A candidate's call-weighted speed-up over all shapes, and its text for a verdict."""

    ratio: Ratio
    conditions: tuple[Condition, ...]


def weighted(shapes: Sequence[Shape], shares: Sequence[float], program: Sequence[float] | None) -> dict[str, Weighted]:
    """Candidate -> call-weighted speed-up, if each shape was timed; program: see Program."""
    found: dict[str, Weighted] = {}
    for name in shapes[0].ratios if len(shapes) == len(shares) > 0 else ():
        if not all(name in one.ratios and "reference" in one.times for one in shapes):
            continue
        ratios = {"; ".join(one.inputs): one.ratios[name] for one in shapes}
        spent = [share * one.times["reference"] for share, one in zip(shares, shapes, strict=True)]
        own = [time / one.ratios[name].value for time, one in zip(spent, shapes, strict=True)]
        halves = [math.log(one.ratios[name].high / one.ratios[name].low) / 2 for one in shapes]
        half = math.hypot(*(time / sum(own) * one for time, one in zip(own, halves, strict=True)))
        value = sum(spent) / sum(own)
        ratio = Ratio(value, value * math.exp(-half), value * math.exp(half), n=min(one.n for one in ratios.values()))
        said = [Condition("weighted", {"count": str(len(shapes))})]
        slower = [(one.value, shape) for shape, one in ratios.items() if one.high < 1 / (1 + THRESHOLD)]
        if slower:
            worst, shape = min(slower)
            told = {"some": str(len(slower)), "count": str(len(shapes)), "shape": shape, "value": digits(worst)}
            said.append(Condition("slower-at", told))
        if program:
            least, most = Program(*program).saved(ratio, _launching(shapes, shares, name))
            said.append(Condition("worth", {"low": f"{least:.1%}", "high": f"{most:.1%}"}))
        found[name] = Weighted(ratio, tuple(said))
    return found


def _launching(shapes: Sequence[Shape], shares: Sequence[float], name: str) -> float:
    """Extra host seconds to launch a call, over the reference; 0 if not measured."""
    more = [one.hosts.get(name, math.nan) - one.hosts.get("reference", math.nan) for one in shapes]
    known = [(share, one) for share, one in zip(shares, more, strict=True) if not math.isnan(one)]
    return sum(share * one for share, one in known) / (sum(share for share, _ in known) or 1.0)


def _mean(ratios: Sequence[Ratio]) -> Ratio:
    """Geometric mean of independent ratios: half-widths of logarithms add as squares."""
    count = len(ratios)
    middle = sum(math.log(one.value) for one in ratios) / count
    half = math.sqrt(sum((math.log(one.high / one.low) / 2) ** 2 for one in ratios)) / count
    return Ratio(math.exp(middle), math.exp(middle - half), math.exp(middle + half), n=min(one.n for one in ratios))


def to_dict(shapes: Sequence[Shape]) -> dict[str, Any]:
    """Shapes for metrics.json."""
    means = {name: _told(one) for name, one in geometric(shapes).items()}
    return {"rows": [one.to_dict() for one in shapes], "geometric_mean": means}


def _told(one: Ratio) -> dict[str, float | None]:
    return plain({"value": one.value, "low": one.low, "high": one.high})
