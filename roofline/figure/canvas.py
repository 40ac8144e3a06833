"""Log-log axes of a scene: limits, ticks, occupied space; ceilings with their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from roofline import units
from roofline.figure.labels import Board, Box, Floats, first_free
from roofline.figure.scene import Scene, compute_names, level_names
from roofline.figure.sheet import WIDTH, Sheet, measure
from roofline.figure.style import DPI
from roofline.wording import roof_name, roof_unit, told

POINT = DPI / 72.0
LEFT, RIGHT, HEIGHT = 0.72, 0.2, 4.1
"""Margins and height of the axes [inch]."""
LABEL = 8.6
SMALL = 8.0
FAINT = 0.3
"""Weight of a ridge's line for label placement."""


class View(NamedTuple):
    """Limits of both axes: intensity [FLOP/B] and FLOP/s."""

    left: float
    right: float
    bottom: float
    top: float


def view(scene: Scene) -> View:
    """Limits that contain every point, lower bound and ridge, with room for labels above."""
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
    """The finite values above 0."""
    return [v for v in values if math.isfinite(v) and v > 0]


class Canvas:
    """Axes of a scene on a sheet, at a distance from its top [inch]."""

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
        axes.set_xlabel(told(self.scene.words, "Arithmetic intensity [FLOP/byte]"), labelpad=4, **style)
        axes.set_ylabel(told(self.scene.words, "Performance [FLOP/s]"), labelpad=5, **style)

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
        """Write text in the best free box; False if none is free."""
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
    if not 1 <= value < 1e18:
        return _plain(value)
    thousands, rest = divmod(round(math.log10(value)), 3)
    return f"{10**rest} {' kMGTP'[thousands]}".rstrip()


def _plain(value: float) -> str:
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    exponent = str(round(math.log10(value)))
    return "10" + exponent.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


# ---- the ceilings


class Line(NamedTuple):
    """One ceiling as drawn, from start to end in data coordinates."""

    label: str
    start: tuple[float, float]
    end: tuple[float, float]
    dashed: bool
    slope: bool


def lines(scene: Scene, limits: View) -> Iterator[Line]:
    """Ceilings: slopes up to the highest peak, horizontals from the fastest level's ridge point."""
    roofline = scene.roofline
    top = max(finite(roofline.peak(c) for c in compute_names(scene)), default=math.inf)
    fastest = max(finite(roofline.peak(level) for level in level_names(scene)), default=math.inf)
    for level in level_names(scene):
        if (ceiling := roofline.get(level)) is not None:
            end = min(top / ceiling.peak, limits.right)
            start = (limits.left, limits.left * ceiling.peak)
            label = f"{roof_name(level)}  {units.text(ceiling.peak, 'B/s')}"
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
        yield Line(f"{_joined(names)}  {units.text(peak, unit)}", (left, peak), (limits.right, peak), dashed, False)


def _joined(names: list[str]) -> str:
    shown = [roof_name(n) for n in names]
    if len(shown) > 1 and all(n.endswith(" tensor") for n in shown):
        return " / ".join(n.removesuffix(" tensor") for n in shown) + " tensor"
    return " / ".join(shown)


def draw_roofs(canvas: Canvas) -> None:
    """Draw lines, ridges and labels; labels avoid every line."""
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
    """Draw a dot at each ridge; the first level's ridges get a line to the axis and a label."""
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
        text = told(scene.words, "ridge {intensity}", intensity=units.digits(x))
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
    """Candidate boxes above, then below, a line: from the right end or a slope's middle."""
    width, height = size_of(line.label, LABEL)
    (x, y), bottom = line.start, canvas.limits.bottom
    # A slope begins where it enters the axes.
    begin = (x * bottom / y, bottom) if line.slope and y < bottom else (x, y)
    start, end = canvas.pixels([begin, line.end])
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
        rows = tuple(tuple(side * (pad + off * POINT) for off in (0, 6, 14)) for side in (1, -1))
        shifts = (0.0, 0.35, 0.7, 1.05, 1.5, 2.0, 2.6)
        # Beyond the start of its line a label would be nobody's.
        centres = [c for c in (right - shift * width for shift in shifts) if c >= width / 2] or [right]
    for offsets in rows:
        for centre in centres:
            for offset in offsets:
                middle = start + along * centre + across * offset
                yield Box(float(middle[0]), float(middle[1]), width, height, angle)
