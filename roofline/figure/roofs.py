"""Draws the ceilings of a scene: limits, lines, ridges, and their labels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from roofline.figure.canvas import POINT, Canvas, View, finite, size_of
from roofline.figure.labels import Box
from roofline.figure.language import told
from roofline.figure.scene import Scene, compute_names, level_names
from roofline.wording import digits, roof_name, roof_unit, si

LABEL = 8.6
SMALL = 8.0
FAINT = 0.3
"""Weight of a ridge's line among those that labels avoid."""


class Line(NamedTuple):
    """One ceiling as drawn, from start to end in data coordinates."""

    label: str
    start: tuple[float, float]
    end: tuple[float, float]
    dashed: bool
    slope: bool


def lines(scene: Scene, limits: View) -> Iterator[Line]:
    """The ceilings to draw: slopes up to the highest peak, horizontals from the fastest ridge."""
    roofline = scene.roofline
    top = max(finite(roofline.peak(c) for c in compute_names(scene)), default=math.inf)
    fastest = max(finite(roofline.peak(level) for level in level_names(scene)), default=math.inf)
    for level in level_names(scene):
        if (ceiling := roofline.get(level)) is not None:
            end = min(top / ceiling.peak, limits.right)
            start = (limits.left, limits.left * ceiling.peak)
            label = f"{roof_name(level)}  {si(ceiling.peak, 'B/s')}"
            yield Line(label, start, (end, end * ceiling.peak), ceiling.source == "datasheet", True)
    groups: dict[tuple[str, bool], list[str]] = {}
    for name in compute_names(scene):
        if (ceiling := roofline.get(name)) is not None:
            # Ceilings of one printed value are one line: BF16 and FP16 on the tensor cores, for one.
            groups.setdefault((f"{ceiling.peak:.2e}", ceiling.source == "datasheet"), []).append(name)
    for (_, dashed), names in groups.items():
        peak = roofline.peak(names[0])
        unit = "OP/s" if any(roof_unit(n) == "OP/s" for n in names) else "FLOP/s"
        left = limits.left if math.isinf(fastest) else max(peak / fastest, limits.left)
        yield Line(f"{_joined(names)}  {si(peak, unit)}", (left, peak), (limits.right, peak), dashed, False)


def _joined(names: list[str]) -> str:
    shown = [roof_name(n) for n in names]
    if len(shown) > 1 and all(n.endswith(" tensor") for n in shown):
        return " / ".join(n.removesuffix(" tensor") for n in shown) + " tensor"
    return " / ".join(shown)


def draw_roofs(canvas: Canvas) -> None:
    """Lines, ridges and labels; every line becomes a segment that labels avoid."""
    drawn = list(lines(canvas.scene, canvas.limits))
    _shade(canvas)
    for line in drawn:
        style: Any = (0, (5, 2.5)) if line.dashed else "-"
        xs, ys = zip(line.start, line.end, strict=True)
        colour = canvas.look.roof
        canvas.axes.plot(xs, ys, color=colour, linewidth=1.3, linestyle=style, zorder=2, solid_capstyle="round")
        canvas.avoid(line.start, line.end)
    _draw_ridges(canvas)
    # Along the lines at their on-screen angle, where there is room.
    for line in sorted(drawn, key=lambda line: (line.slope, -line.end[1])):
        canvas.label(line.label, LABEL, _along(canvas, line), canvas.look.roof)


def _shade(canvas: Canvas) -> None:
    roofline, limits = canvas.scene.roofline, canvas.limits
    top = max(finite(roofline.peak(c) for c in compute_names(canvas.scene)), default=math.nan)
    bandwidth = max(finite(roofline.peak(level) for level in level_names(canvas.scene)), default=math.nan)
    if math.isnan(top) or math.isnan(bandwidth):
        return
    xs = [limits.left, top / bandwidth, limits.right]
    under = [min(top, x * bandwidth) for x in xs]
    canvas.axes.fill_between(xs, under, limits.bottom, color=canvas.look.shade, linewidth=0, zorder=0)


def _draw_ridges(canvas: Canvas) -> None:
    """Draw a dot at each ridge; those of the first level get a line to the axis and a label."""
    scene, look, bottom = canvas.scene, canvas.look, canvas.limits.bottom
    levels = level_names(scene)
    found: dict[str, tuple[float, float, bool]] = {}
    for compute in compute_names(scene):
        for level in levels:
            x, y = scene.roofline.ridge(compute, level), scene.roofline.peak(compute)
            if not math.isnan(x):
                found.setdefault(f"{x:.2e}{y:.2e}", (x, y, level == levels[0]))
    for x, y, first in found.values():
        canvas.axes.plot([x], [y], "o", ms=3.4, mfc=look.roof, mec=look.roof, mew=0, zorder=3)
        if first:
            canvas.avoid((x, bottom), (x, y), weight=FAINT)
    for x, y, first in found.values():
        text = told(scene.lang, "ridge {intensity}", intensity=digits(x))
        if first and canvas.label(text, SMALL, _beside_foot(canvas, x, text), look.muted):
            style: Any = (0, (1, 2.5))
            canvas.axes.plot([x, x], [bottom, y], color=look.muted, linewidth=0.8, linestyle=style, zorder=1)


def _beside_foot(canvas: Canvas, x: float, text: str) -> Iterator[Box]:
    width, height = size_of(text, SMALL)
    width += 5 * POINT
    (foot,) = canvas.pixels([(x, canvas.limits.bottom)])
    for row in range(3):
        for side in (1, -1):
            across, up = side * (width / 2 + 4 * POINT), (row + 0.8) * height * 1.25
            yield Box(float(foot[0] + across), float(foot[1] + up), width, height)


def _along(canvas: Canvas, line: Line) -> Iterator[Box]:
    """Boxes above, then below, a line: from a horizontal's right end, a slope's middle."""
    width, height = size_of(line.label, LABEL)
    start, end = canvas.pixels([_clipped(line, canvas.limits), line.end])
    run = end - start
    length = float(np.hypot(*run)) or 1.0
    along = run / length
    across = np.array([-along[1], along[0]])
    angle = math.degrees(math.atan2(run[1], run[0]))
    pad = height / 2 + 2.6 * POINT
    if line.slope:
        centres = [length * t for t in (0.5, 0.35, 0.65, 0.2, 0.8, 0.1)]
        rows: tuple[tuple[float, ...], ...] = ((pad,), (-pad,))
    else:
        right = length - width / 2 - 2 * POINT
        rows = ((pad, pad + 6 * POINT), (-pad, -pad - 6 * POINT))
        shifts = (0.0, 0.35, 0.7, 1.05, 1.5, 2.0, 2.6)
        # Beyond the start of its line a label would be nobody's.
        centres = [c for c in (right - shift * width for shift in shifts) if c >= width / 2] or [right]
    for offsets in rows:
        for centre in centres:
            for offset in offsets:
                middle = start + along * centre + across * offset
                yield Box(float(middle[0]), float(middle[1]), width, height, angle)


def _clipped(line: Line, limits: View) -> tuple[float, float]:
    """The start of a line, moved along it to where it enters the axes."""
    x, y = line.start
    if not line.slope or y >= limits.bottom:
        return x, y
    return x * limits.bottom / y, limits.bottom
