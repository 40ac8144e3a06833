"""Format numbers: one unit per column, three significant digits, a dash for NaN."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

MISSING = "-"
ROUNDED = 0.9995
"""Value from which three digits round to one of the next unit."""

SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")),
    "FLOP/s": ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")),
    "OP/s": ((1e12, "TOP/s"), (1e9, "GOP/s"), (1e6, "MOP/s")),
    "B/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s")),
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    "FLOP": ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1.0, "FLOP")),
    "Hz": ((1e9, "GHz"), (1e6, "MHz")),
    "FLOP/B": ((1.0, "FLOP/B"),),
    "1": ((1.0, ""),),
    "%": ((1e-2, "%"),),
}


def scale(unit: str, values: Iterable[float]) -> tuple[float, str]:
    """(divisor, name) of the unit for the largest finite value of a column."""
    sizes = [abs(value) for value in values if value is not None and math.isfinite(value) and value]
    largest = max(sizes, default=0.0)
    steps = SCALES[unit]
    return next((step for step in steps if largest >= step[0] * ROUNDED), steps[-1])


def digits(value: float, count: int = 3) -> str:
    """`value` with `count` significant digits and no exponent: 0.0123, 1.23, 12.3, 123, 1230."""
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    places = count - 1 - math.floor(math.log10(abs(value)))
    if round(abs(value), places) >= 10 ** (count - places):
        places -= 1
    return f"{round(value, places):.{max(places, 0)}f}"


def count(value: float) -> str:
    """A number of things: an integer, or an average with three digits."""
    return f"{value:.0f}" if value == value and not math.isinf(value) and value == int(value) else digits(value)


def text(value: float, unit: str, count: int = 3) -> str:
    """One number with its own unit and `count` digits: text(0.0000123, "s") = "12.3 us"."""
    if value is None or math.isnan(value):
        return MISSING
    if value == 0:
        return "0"
    divisor, name = scale(unit, [value])
    return f"{digits(value / divisor, count)}{'' if name in ('', '%') else ' '}{name}"


def column(values: Sequence[float], unit: str) -> tuple[str, list[str]]:
    """(unit's name, cells) of a column in one unit."""
    divisor, name = scale(unit, values)
    return name, [digits(value / divisor) if value is not None else MISSING for value in values]


def percent(value: float) -> str:
    """A fraction as a percentage: 0.8831 -> "88.3%"."""
    if 0 < abs(value or 0) < 1e-6:
        return "<0.0001%"
    return MISSING if value is None or math.isnan(value) else f"{digits(value * 100)}%"


def seconds(value: float) -> str:
    """Three significant digits in s, ms or us: 23.3 us; "0" for none."""
    return text(value, "s")
