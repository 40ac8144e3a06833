"""How a counter follows from the metrics of a tool: weighted sums of products, per chip.

Metrics are named as the tool names them and hold SI base units (s, B, Hz); a percentage stays a percentage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Column: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Term:
    """weight * the product of `metrics`."""

    weight: float
    metrics: tuple[str, ...]

    def value(self, columns: Mapping[str, Any]) -> Any:
        """The term from metric columns (arrays of one length); NaN wherever a factor is."""
        result: Any = self.weight
        for metric in self.metrics:
            result = result * columns[metric]
        return result


@dataclass(frozen=True)
class Recipe:
    """A sum of terms that is right on some chips.

    chips: compute capabilities, "8.0-8.9 12.0", open range "9.0-", "" = every chip. ask: whether a recording asks for
    these metrics; the others only serve other people's files.
    """

    terms: tuple[Term, ...]
    chips: str = ""
    ask: bool = True

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The tool's metrics this recipe needs, in order, each once."""
        names = [name for term in self.terms for name in term.metrics]
        return tuple(dict.fromkeys(names))

    def covers(self, cc: str) -> bool:
        """Whether the recipe holds for compute capability `cc`; for "" (unknown) every recipe does."""
        return not cc or covers(self.chips, cc)

    def value(self, columns: Mapping[str, Any]) -> Any:
        """The sum; NaN wherever a metric is NaN. Every metric must be in `columns`."""
        return sum((term.value(columns) for term in self.terms[1:]), self.terms[0].value(columns))


def one(metric: str, weight: float = 1.0, *, chips: str = "", ask: bool = True) -> Recipe:
    """weight * metric."""
    return Recipe((Term(weight, (metric,)),), chips, ask)


def total(weights: Mapping[str, float], *, chips: str = "", ask: bool = True) -> Recipe:
    """The sum of weight * metric."""
    return Recipe(tuple(Term(weight, (metric,)) for metric, weight in weights.items()), chips, ask)


def product(weight: float, *metrics: str, chips: str = "", ask: bool = True) -> Recipe:
    """weight * metric * metric ..."""
    return Recipe((Term(weight, metrics),), chips, ask)


@lru_cache(maxsize=4096)
def covers(chips: str, cc: str) -> bool:
    """Whether compute capability `cc` is in the list `chips` (see Recipe)."""
    if not chips:
        return True
    number = capability(cc)
    for part in chips.split():
        low, dash, high = part.partition("-")
        end = capability(high) if high else (1 << 30 if dash else capability(low))
        if capability(low) <= number <= end:
            return True
    return False


def capability(cc: str) -> int:
    """A number that orders chips: "9.0" and "sm_90a" are 90; raises ValueError."""
    found = re.fullmatch(r"(\d+)\.(\d)", cc) or re.fullmatch(r"sm_(\d+)(\d)[a-z]?", cc)
    if not found:
        raise ValueError(f"compute capability {cc!r} is not like '9.0'")
    return int(found[1]) * 10 + int(found[2])
