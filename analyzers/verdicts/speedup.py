"""The two conventions of a speed-up; every table names its own.

ratio    old / new            "1.66x"; "0.52x" is slower: 1 / 0.52 = 1.92 times as long
gain     old / new - 1        "faster than 157.2%"
"""

from __future__ import annotations

import math

FORMULAS = {"ratio": "old / new", "gain": "old / new - 1"}
THRESHOLD = 0.01
"""How far from 1 a speed-up has to be, for sure, to be one."""
SLACK = 0.02
"""A measured ceiling repeats within this share, so a time is called impossible only below it."""


def speedup(old: float, new: float, convention: str = "ratio") -> float:
    """Return how much faster `new` is than `old` (one unit); NaN if one is not above 0."""
    if not (old > 0 and new > 0):
        return math.nan
    return old / new - (1 if convention == "gain" else 0)


def shown(value: float, convention: str) -> str:
    """A speed-up as its convention writes it: "1.66x", "157.2%"."""
    return "-" if math.isnan(value) else f"{value:.1%}" if convention == "gain" else f"{digits(value)}x"


def digits(value: float) -> str:
    """Three significant digits, zeros included: "2.80", "0.483", "108"."""
    return f"{value:.3g}" if value >= 1000 else f"{value:#.3g}".rstrip(".")


def word(low: float, high: float, threshold: float = THRESHOLD) -> str:
    """What an interval of a speed-up says; inconclusive without one."""
    if math.isnan(low) or math.isnan(high):
        return "inconclusive"
    above, below = 1 + threshold, 1 / (1 + threshold)
    if low > above:
        return "faster"
    if high < below:
        return "slower"
    return "same" if below <= low and high <= above else "inconclusive"
