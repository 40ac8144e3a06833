"""The log-log axes of a scene: limits, ticks, frame, positions in pixels, space taken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from roofline.figure.labels import Board, Box, Floats, first_free
from roofline.figure.language import told
from roofline.figure.scene import Scene, compute_names, level_names
from roofline.figure.sheet import WIDTH, Sheet, measure
from roofline.figure.style import DPI
from roofline.wording import si

POINT = DPI / 72.0
LEFT, RIGHT, HEIGHT = 0.72, 0.2, 4.1
"""Margins and height of the axes [inch]."""


class View(NamedTuple):
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


class Canvas:
    """The axes of a scene on a sheet, at a distance from its top [inch]."""

    def __init__(self, sheet: Sheet, scene: Scene, top: float) -> None:
        self.sheet, self.scene, self.look = sheet, scene, sheet.look
        self.limits = view(scene)
        width = WIDTH - LEFT - RIGHT
        self.axes = sheet.axes(LEFT, top, width, HEIGHT)
        middle = ((LEFT + width / 2) * DPI, (sheet.height - top - HEIGHT / 2) * DPI)
        self.board = Board(Box(*middle, width * DPI, HEIGHT * DPI))
        self._frame()

    def _frame(self) -> None:
        axes, limits = self.axes, self.limits
        axes.set(xscale="log", yscale="log", xlim=(limits.left, limits.right), ylim=(limits.bottom, limits.top))
        axes.minorticks_off()
        xticks, yticks = _decades(limits.left, limits.right), _decades(limits.bottom, limits.top)
        axes.set_xticks(xticks, [_plain(x) for x in xticks])
        axes.set_yticks(yticks, [_tick(y) for y in yticks])
        axes.grid(True, which="major", color=self.look.grid, linewidth=0.7)
        style = {"fontsize": 8.5, "color": self.look.muted, "fontfamily": self.sheet.families}
        axes.set_xlabel(told(self.scene.lang, "Arithmetic intensity [FLOP/byte]"), labelpad=4, **style)
        axes.set_ylabel(told(self.scene.lang, "Performance [FLOP/s]"), labelpad=5, **style)

    def pixels(self, points: Sequence[tuple[float, float]]) -> Floats:
        """Data coordinates in pixels, shape (n, 2)."""
        return np.asarray(self.axes.transData.transform(np.reshape(points, (-1, 2))), dtype=np.float64)

    def avoid(self, *ends: tuple[float, float], weight: float = 1.0) -> None:
        """Keep labels off a segment between two points in data coordinates."""
        start, end = self.pixels(ends)
        self.board.segments.append((start, end, weight))

    def mark(self, spots: Sequence[tuple[float, float]], radii: Sequence[float]) -> None:
        """Keep labels off marks: data coordinates, and radii [pt]."""
        discs = np.column_stack([self.pixels(spots), (np.array(radii) + 1.0) * POINT])
        self.board.discs = np.vstack([self.board.discs, discs])

    def label(self, text: str, size: float, boxes: Iterable[Box], colour: str) -> bool:
        """Write text in the best free box of those; False where none is free."""
        box = first_free(self.board, list(boxes))
        if box is not None:
            self.write(box, text, size, color=colour)
        return box is not None

    def write(self, box: Box, text: str, size: float, **style: Any) -> None:
        """Write text centred on a placed box [pixels], with a halo of the background."""
        from matplotlib.patheffects import withStroke

        halo = [withStroke(linewidth=2.2, foreground=self.look.surface, alpha=0.85)]
        place = {"ha": "center", "va": "center", "rotation": box.angle, "rotation_mode": "anchor", "zorder": 8}
        x, y = box.x / DPI, self.sheet.height - box.y / DPI
        self.sheet.text(x, y, text, size, path_effects=halo, **place, **style)


def size_of(text: str, size: float, weight: str = "normal") -> tuple[float, float]:
    """Width and height of a text [pixels]."""
    width, height = measure(text, size, weight)
    return width * DPI, height * DPI


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
