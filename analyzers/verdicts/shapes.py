"""The speed-up over several shapes of the inputs: one ratio a shape, and their geometric mean.

Its interval is that of the shapes that were timed, from the intervals of their ratios: it says how well this mean is
known, not what another shape would give.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from analyzers.records import plain
from analyzers.verdicts import timing
from analyzers.verdicts.speedup import THRESHOLD, digits
from analyzers.verdicts.statistics import Ratio
from analyzers.verdicts.verdict import Condition


@dataclass(frozen=True)
class Shape:
    """One set of inputs, as described: median seconds by implementation, speed-ups by candidate."""

    inputs: tuple[str, ...]
    times: Mapping[str, float] = field(default_factory=dict)
    ratios: Mapping[str, Ratio] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; a number that is not known is None."""
        speedups = {name: _told(one) for name, one in self.ratios.items()}
        return {"inputs": list(self.inputs), "times": dict(self.times), "speedups": speedups}


def shape(inputs: Sequence[str], timings: pd.DataFrame, reference: str) -> Shape:
    """Figures of one shape from its samples."""
    samples = timing.check(timings)
    chosen = timing.choose(samples)
    times = {name: one.spread.median for name, one in timing.spreads(chosen, samples).items()}
    return Shape(tuple(inputs), times, timing.speedups(chosen, reference))


def geometric(shapes: Sequence[Shape]) -> dict[str, Ratio]:
    """Candidate -> geometric mean of its speed-ups over several shapes."""
    names = [
        name for name in (shapes[0].ratios if len(shapes) > 1 else ()) if all(name in one.ratios for one in shapes)
    ]
    return {name: _mean([one.ratios[name] for one in shapes]) for name in names}


@dataclass(frozen=True)
class Weighted:
    """A candidate's speed-up over all shapes weighted by calls: time of the reference's calls / of the candidate's.

    `slower`: the shapes at which it is slower for sure; `worth`: share of the program's time that it saves, None unknown.
    """

    ratio: Ratio
    slower: Mapping[str, Ratio]
    worth: Ratio | None = None

    def conditions(self, count: int) -> tuple[Condition, ...]:
        """What the verdict says of it; `count`: of shapes."""
        found = [Condition("weighted", {"count": str(count)})]
        if self.slower:
            shape, ratio = min(self.slower.items(), key=lambda one: one[1].value)
            told = {"some": str(len(self.slower)), "count": str(count), "shape": shape, "value": digits(ratio.value)}
            found.append(Condition("slower-at", told))
        if self.worth is not None:
            low, value, high = (f"{one:.2%}" for one in (self.worth.low, self.worth.value, self.worth.high))
            found.append(Condition("worth", {"value": value, "low": low, "high": high}))
        return tuple(found)


def weighted(shapes: Sequence[Shape], shares: Sequence[float], program: float | None) -> dict[str, Weighted]:
    """Candidate -> speed-up over all shapes by their shares of the calls; none unless each shape was timed.

    program: the share of the program's time that waits for these calls (Amdahl).
    """
    if len(shapes) != len(shares):
        return {}
    found = {}
    for name in shapes[0].ratios if shapes else ():
        if not all(name in one.ratios and "reference" in one.times for one in shapes):
            continue
        ratios = [one.ratios[name] for one in shapes]
        spent = [share * one.times["reference"] for share, one in zip(shares, shapes, strict=True)]
        own = [time / ratio.value for time, ratio in zip(spent, ratios, strict=True)]
        half = math.sqrt(
            sum(
                (time / sum(own) * math.log(one.high / one.low) / 2) ** 2 for time, one in zip(own, ratios, strict=True)
            )
        )
        value = sum(spent) / sum(own)
        ratio = Ratio(value, value * math.exp(-half), value * math.exp(half), n=min(one.n for one in ratios))
        slower = {
            "; ".join(one.inputs): one.ratios[name] for one in shapes if one.ratios[name].high < 1 / (1 + THRESHOLD)
        }
        saved = [program * (1 - 1 / one) for one in (ratio.value, ratio.low, ratio.high)] if program else []
        found[name] = Weighted(ratio, slower, Ratio(*saved, n=ratio.n) if saved else None)
    return found


def _mean(ratios: Sequence[Ratio]) -> Ratio:
    """Geometric mean of independent ratios: half-widths of logarithms add as squares."""
    count = len(ratios)
    middle = sum(math.log(one.value) for one in ratios) / count
    half = math.sqrt(sum((math.log(one.high / one.low) / 2) ** 2 for one in ratios)) / count
    return Ratio(math.exp(middle), math.exp(middle - half), math.exp(middle + half), n=min(one.n for one in ratios))


def to_dict(shapes: Sequence[Shape]) -> dict[str, Any]:
    """What metrics.json says of the shapes."""
    means = {name: _told(one) for name, one in geometric(shapes).items()}
    return {"rows": [one.to_dict() for one in shapes], "geometric_mean": means}


def _told(one: Ratio) -> dict[str, float | None]:
    return plain({"value": one.value, "low": one.low, "high": one.high})
