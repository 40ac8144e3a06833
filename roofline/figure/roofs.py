"""Draws the ceilings of a scene: limits, lines, ridges, and their labels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.figure.frame import View, finite
from roofline.figure.labels import Board, Box, Floats, first_free
from roofline.figure.language import told
from roofline.figure.scene import Scene, compute_names, level_names
from roofline.figure.sheet import Sheet, measure
from roofline.figure.style import DPI
from roofline.wording import digits, roof_name, roof_unit, si

LABEL = 8.6
SMALL = 8.0
POINT = DPI / 72.0


@dataclass(frozen=True)
class Line:
    """One ceiling as drawn, from start to end in data coordinates."""

    label: str
    start: tuple[float, float]
    end: tuple[float, float]
    dashed: bool
    slope: bool


def lines(scene: Scene, limits: View) -> list[Line]:
    """The ceilings to draw: slopes up to the highest peak, horizontals from the fastest ridge."""
    return [*_slopes(scene, limits), *_horizontals(scene, limits)]


def _slopes(scene: Scene, limits: View) -> Iterator[Line]:
    roofline = scene.roofline
    top = max(finite(roofline.peak(c) for c in compute_names(scene)), default=math.inf)
    for level in level_names(scene):
        ceiling = roofline.get(level)
        if ceiling is None:
            continue
        end = min(top / ceiling.peak, limits.right)
        label = f"{roof_name(level)}  {si(ceiling.peak, 'B/s')}"
        start = (limits.left, limits.left * ceiling.peak)
        yield Line(label, start, (end, end * ceiling.peak), ceiling.source == "datasheet", True)


def _horizontals(scene: Scene, limits: View) -> Iterator[Line]:
    roofline = scene.roofline
    fastest = max(finite(roofline.peak(level) for level in level_names(scene)), default=math.inf)
    groups: dict[tuple[str, bool], list[str]] = {}
    for name in compute_names(scene):
        ceiling = roofline.get(name)
        if ceiling is not None:
            # Ceilings of one printed value are one line: BF16 and FP16 on the tensor cores, for one.
            groups.setdefault((f"{ceiling.peak:.2e}", ceiling.source == "datasheet"), []).append(name)
    for (_, dashed), names in groups.items():
        peak = roofline.peak(names[0])
        unit = "OP/s" if any(roof_unit(n) == "OP/s" for n in names) else "FLOP/s"
        start = limits.left if math.isinf(fastest) else max(peak / fastest, limits.left)
        yield Line(f"{_joined(names)}  {si(peak, unit)}", (start, peak), (limits.right, peak), dashed, False)


def _joined(names: list[str]) -> str:
    shown = [roof_name(n) for n in names]
    if len(shown) > 1 and all(n.endswith(" tensor") for n in shown):
        return " / ".join(n.removesuffix(" tensor") for n in shown) + " tensor"
    return " / ".join(shown)


def draw_roofs(sheet: Sheet, axes: Any, scene: Scene, limits: View, board: Board) -> None:
    """Lines and ridges; every line becomes a segment that labels avoid."""
    look = sheet.look
    drawn = lines(scene, limits)
    _shade(axes, scene, limits, look.shade)
    for line in drawn:
        style: Any = (0, (5, 2.5)) if line.dashed else "-"
        xs, ys = zip(line.start, line.end, strict=True)
        axes.plot(xs, ys, color=look.roof, linewidth=1.3, linestyle=style, zorder=2, solid_capstyle="round")
        board.segments.append((_pixels(axes, line.start), _pixels(axes, line.end)))
    _draw_ridges(sheet, axes, scene, limits, board)


def _shade(axes: Any, scene: Scene, limits: View, colour: str) -> None:
    roofline = scene.roofline
    top = max(finite(roofline.peak(c) for c in compute_names(scene)), default=math.nan)
    bandwidth = max(finite(roofline.peak(level) for level in level_names(scene)), default=math.nan)
    if math.isnan(top) or math.isnan(bandwidth):
        return
    xs = [limits.left, top / bandwidth, limits.right]
    axes.fill_between(xs, [min(top, x * bandwidth) for x in xs], limits.bottom, color=colour, linewidth=0, zorder=0)


def _draw_ridges(sheet: Sheet, axes: Any, scene: Scene, limits: View, board: Board) -> None:
    """Draw a dot at each ridge; those of the first level get a line to the axis and a label."""
    roofline, look = scene.roofline, sheet.look
    levels = level_names(scene)
    found: dict[str, tuple[float, float, bool]] = {}
    for compute in compute_names(scene):
        for level in levels:
            x, y = roofline.ridge(compute, level), roofline.peak(compute)
            if not math.isnan(x):
                found.setdefault(f"{x:.2e}{y:.2e}", (x, y, level == levels[0]))
    for x, y, first in found.values():
        axes.plot([x], [y], "o", ms=3.4, mfc=look.roof, mec=look.roof, mew=0, zorder=3)
        if first:
            board.faint.append((_pixels(axes, (x, limits.bottom)), _pixels(axes, (x, y))))
    for x, y, first in found.values():
        if first:
            _ridge_label(sheet, axes, scene.lang, x, y, limits, board)


def _ridge_label(sheet: Sheet, axes: Any, lang: str, x: float, y: float, limits: View, board: Board) -> None:
    text = told(lang, "ridge {intensity}", intensity=digits(x))
    width, height = (v * DPI for v in measure(text, SMALL))
    width += 5 * POINT
    foot = _pixels(axes, (x, limits.bottom))
    sides = [
        Box(
            float(foot[0] + side * (width / 2 + 4 * POINT)),
            float(foot[1] + (row + 0.8) * height * 1.25),
            width,
            height,
        )
        for row in range(3)
        for side in (1, -1)
    ]
    chosen = first_free(board, sides)
    if chosen is None:
        return
    axes.plot([x, x], [limits.bottom, y], color=sheet.look.muted, linewidth=0.8, linestyle=(0, (1, 2.5)), zorder=1)
    write(sheet, sides[chosen], text, SMALL, color=sheet.look.muted)


def draw_roof_labels(sheet: Sheet, axes: Any, scene: Scene, limits: View, board: Board) -> None:
    """Labels along the lines at their on-screen angle, where there is room."""
    for line in sorted(lines(scene, limits), key=lambda line: (line.slope, -line.end[1])):
        width, height = (v * DPI for v in measure(line.label, LABEL))
        candidates = list(_along(axes, line, limits, width, height))
        chosen = first_free(board, candidates)
        if chosen is not None:
            write(sheet, candidates[chosen], line.label, LABEL, color=sheet.look.roof)


def _along(axes: Any, line: Line, limits: View, width: float, height: float) -> Iterator[Box]:
    """Boxes above, then below, a line: from a horizontal's right end, a slope's middle."""
    start, end = _pixels(axes, _clipped(line, limits)), _pixels(axes, line.end)
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


def write(sheet: Sheet, box: Box, text: str, size: float, **style: Any) -> None:
    """Write text centred on a placed box [pixels], with a halo of the background."""
    from matplotlib.patheffects import withStroke

    height = sheet.height * DPI
    halo = [withStroke(linewidth=2.2, foreground=sheet.look.surface, alpha=0.85)]
    sheet.text(
        box.x / DPI,
        (height - box.y) / DPI,
        text,
        size,
        ha="center",
        va="center",
        rotation=box.angle,
        rotation_mode="anchor",
        path_effects=halo,
        zorder=8,
        **style,
    )


def _pixels(axes: Any, point: tuple[float, float]) -> Floats:
    return np.asarray(axes.transData.transform(point), dtype=np.float64)


def pixels(axes: Any, points: list[tuple[float, float]]) -> Floats:
    """Data coordinates in pixels, shape (n, 2)."""
    if not points:
        return np.empty((0, 2))
    return np.asarray(axes.transData.transform(np.array(points)), dtype=np.float64)
