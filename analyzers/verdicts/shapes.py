"""Speed-ups over several input shapes, and their geometric mean.

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
from analyzers.verdicts.statistics import Ratio


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
