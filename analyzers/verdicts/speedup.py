"""The four meanings of "speed-up %", and whether a printed figure follows from printed columns.

Reports mix them, so every table names its convention:

    ratio    old / new            "x1.66"
    gain     old / new - 1        "faster than 157.2%"
    saved    (old - new) / old    "58.6% less time"
    percent  old / new, in %      "315.8%"
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from analyzers.errors import AnalyzeError

CONVENTIONS: dict[str, Callable[[float, float], float]] = {
    "ratio": lambda old, new: old / new,
    "gain": lambda old, new: old / new - 1,
    "saved": lambda old, new: (old - new) / old,
    "percent": lambda old, new: old / new,
}
FORMULAS = {
    "ratio": "old / new",
    "gain": "old / new - 1",
    "saved": "(old - new) / old",
    "percent": "old / new x 100",
}
THRESHOLD = 0.01
"""How far from 1 a speed-up has to be, for sure, to be one."""
_SHOWN = {"ratio": "{:.3g}x", "gain": "{:.1%}", "saved": "{:.1%}", "percent": "{:.1%}"}
_NUMBER = re.compile(r"[+-]?\d+(?:\.(\d*))?(?:[eE]([+-]?\d+))?")


def speedup(old: float, new: float, convention: str = "ratio") -> float:
    """How much faster `new` is than `old` (times, any one unit); a fraction but for "ratio".

    NaN when a time is not above 0. Raises AnalyzeError on another convention.
    """
    if convention not in CONVENTIONS:
        raise AnalyzeError(f"no convention {convention!r}", fix=f"use one of {', '.join(CONVENTIONS)}")
    if not (old > 0 and new > 0):
        return math.nan
    return CONVENTIONS[convention](old, new)


def shown(value: float, convention: str) -> str:
    """A speed-up as its convention writes it: "1.66x", "157.2%"."""
    return "-" if math.isnan(value) else _SHOWN[convention].format(value)


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


@dataclass(frozen=True)
class Printed:
    """A number as it stood in a table: its value, and half of its last digit."""

    value: float
    half: float

    @property
    def low(self) -> float:
        return self.value - self.half

    @property
    def high(self) -> float:
        return self.value + self.half


def printed(text: str) -> Printed:
    """The number in a cell with the interval it was rounded from: "1.585" is 1.5845 to 1.5855.

    A percent sign divides by 100. Raises AnalyzeError when there is no number.
    """
    match = _NUMBER.search(text.replace(",", ""))
    if match is None:
        raise AnalyzeError(f"no number in {text!r}")
    exponent = int(match[2] or 0)
    half = 0.5 * 10.0 ** (exponent - len(match[1] or ""))
    scale = 0.01 if "%" in text[match.end() :] else 1.0
    return Printed(float(match[0]) * scale, half * scale)


def follows(result: Printed, formula: Callable[..., float], inputs: Sequence[Printed]) -> bool:
    """Whether a printed result can come from the printed inputs, each anywhere in its rounding interval.

    formula must be monotone in each input, as ratios and products are.
    """
    corners = [formula(*values) for values in product(*((one.low, one.high) for one in inputs))]
    slack = 1e-9 * max(abs(corner) for corner in corners)
    return result.low - slack <= max(corners) and min(corners) - slack <= result.high


def conventions_of(old: Printed, new: Printed, result: Printed) -> tuple[str, ...]:
    """Conventions by which a printed speed-up follows from printed times; none: an arithmetic slip."""
    return tuple(name for name, formula in CONVENTIONS.items() if follows(result, formula, (old, new)))
