"""The two conventions of a speed-up; every table names its own.

ratio    old / new            "1.66x"; "0.52x" is slower: 1 / 0.52 = 1.92 times as long
gain     old / new - 1        "faster than 157.2%"
"""

from __future__ import annotations

import math

from roofline.units import digits

FORMULAS = {"ratio": "old / new", "gain": "old / new - 1"}
THRESHOLD = 0.01
"""Distance from 1 of an interval that makes a speed-up significant."""
SLACK = 0.02
"""Repeatability of a measured ceiling; a time is impossible only below it by more."""


def speedup(old: float, new: float, convention: str = "ratio") -> float:
    """Ratio old / new of times in one unit; NaN unless both are positive."""
    if not (old > 0 and new > 0):
        return math.nan
    return old / new - (1 if convention == "gain" else 0)


def shown(value: float, convention: str) -> str:
    """A speed-up in its convention: "1.66x", "157.2%"."""
    return "-" if math.isnan(value) else f"{value:.1%}" if convention == "gain" else f"{digits(value)}x"


def word(low: float, high: float, threshold: float = THRESHOLD) -> str:
    """Verdict of a speed-up's interval; inconclusive without one."""
    if math.isnan(low) or math.isnan(high):
        return "inconclusive"
    above, below = 1 + threshold, 1 / (1 + threshold)
    if low > above:
        return "faster"
    if high < below:
        return "slower"
    return "same" if below <= low and high <= above else "inconclusive"
