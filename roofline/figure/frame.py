"""Limits, ticks and frame of the log-log axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from roofline.figure.language import told
from roofline.figure.scene import Scene, compute_names, level_names
from roofline.figure.sheet import Sheet
from roofline.wording import si


@dataclass(frozen=True)
class View:
    """Limits of both axes: intensity [FLOP/B] and FLOP/s."""

    left: float
    right: float
    bottom: float
    top: float


def view(scene: Scene) -> View:
    """Limits that hold every point, lower bound and ridge, with room for labels above."""
    roofline = scene.roofline
    placed = [p for p in scene.points if p.placed]
    computes, levels = compute_names(scene), level_names(scene)
    ridges = finite(roofline.ridge(c, level) for c in computes for level in levels)
    peaks = finite(roofline.peak(c) for c in computes)
    xs = [p.intensity for p in placed] + finite(f.intensity for f in scene.lower_bounds)
    ys = [p.flops_per_s for p in placed] + finite(
        roofline.attainable(f.intensity, f.compute, f.level) for f in scene.lower_bounds
    )
    if not ys and not peaks:
        bandwidths = finite(roofline.peak(level) for level in levels)
        ys = [b * x for b in bandwidths for x in (0.1, 100.0)] or [1e9, 1e14]
    lows = [x / 3 for x in xs] + [r / 30 for r in ridges] or [0.01]
    highs = [x * 3.5 for x in xs] + [r * 14 for r in ridges] or [1000.0]
    bottoms = [y / 3.5 for y in ys] + [p / 200 for p in peaks]
    tops = [y * 2.2 for y in ys] + [p * 2.6 for p in peaks]
    return View(*_at_least(min(lows), max(highs), 3.0), *_at_least(min(bottoms), max(tops), 2.5))


def _at_least(low: float, high: float, decades: float) -> tuple[float, float]:
    missing = decades - math.log10(high / low)
    return (low / 10 ** (missing / 2), high * 10 ** (missing / 2)) if missing > 0 else (low, high)


def finite(values: Iterable[float]) -> list[float]:
    """The values above 0 that are numbers."""
    return [v for v in values if math.isfinite(v) and v > 0]


def draw_axes(sheet: Sheet, scene: Scene, limits: View, box: tuple[float, float, float, float]) -> Any:
    """Log-log axes with ticks at decades, in the rectangle (left, top, width, height) [inch]."""
    axes = sheet.axes(*box)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(limits.left, limits.right)
    axes.set_ylim(limits.bottom, limits.top)
    axes.minorticks_off()
    xticks, yticks = _decades(limits.left, limits.right), _decades(limits.bottom, limits.top)
    axes.set_xticks(xticks, [_plain(x) for x in xticks])
    axes.set_yticks(yticks, [_tick(y) for y in yticks])
    axes.grid(True, which="major", color=sheet.look.grid, linewidth=0.7)
    style = {"fontsize": 8.5, "color": sheet.look.muted, "fontfamily": sheet.families}
    axes.set_xlabel(told(scene.lang, "Arithmetic intensity [FLOP/byte]"), labelpad=4, **style)
    axes.set_ylabel(told(scene.lang, "Performance [FLOP/s]"), labelpad=5, **style)
    return axes


def _decades(low: float, high: float) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / 9))
    return [10.0**e for e in range(first, last + 1, step)]


def _tick(value: float) -> str:
    number, _, prefix = si(value, "").partition(" ")
    return f"{float(number):g} {prefix}".rstrip() if 1 <= value < 1e18 else _plain(value)


def _plain(value: float) -> str:
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    exponent = str(round(math.log10(value)))
    return "10" + exponent.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
