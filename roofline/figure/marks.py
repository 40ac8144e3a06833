"""Points of a scene: markers, lower bounds, arrows, and names placed without overlap."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from roofline.figure.canvas import POINT, Canvas, size_of
from roofline.figure.labels import Floats, place
from roofline.figure.scene import ABOVE, Point, Scene, impls, share_of_roof
from roofline.figure.style import FILLED, area, colours, markers, radius
from roofline.units import percent
from roofline.wording import cut, showable

NAME = 8.6
CROWD = 60
LOWER_BOUND_AREA = 58.0
LOWER_BOUND = "D"
"""Marker of a lower bound: hollow, but unlike the ring around a point above its ceiling."""
RING = 3.0
"""Distance [pt] of the warning ring from its marker."""
MOST_NAMES = 14
"""Most names in a plot; the rest are counted below it."""


class Tag(NamedTuple):
    """A point with a text: its name and percent of the ceiling."""

    point: Point
    text: str


def ranked(scene: Scene) -> list[Point]:
    """Points with a text, the winner's first, by time.

    Other memory levels of a kernel, and the start of an arrow to a point of the same name, have none.
    """
    silent = {a.start for a in scene.arrows if a.start.label == a.end.label}
    seen: set[tuple[str, str, float]] = set()
    found = []
    for point in scene.points:
        key = (point.label, point.impl, point.flops_per_s)
        if point.placed and point not in silent and key not in seen:
            seen.add(key)
            found.append(point)
    return sorted(found, key=lambda p: (p.impl != scene.winner, -p.share if math.isfinite(p.share) else 0.0))


def names(points: Iterable[Point], limit: int = 26) -> dict[str, str]:
    """A drawable short name for every label; equal ones are numbered, undrawable ones "#n"."""
    found: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for index, label in enumerate(dict.fromkeys(p.label for p in points), start=1):
        name = showable(cut(" ".join(label.split()), limit), f"#{index}")
        counts[name] += 1
        found[label] = name if counts[name] == 1 else f"{name} ({counts[name]})"
    return found


def name_tags(scene: Scene) -> list[Tag]:
    """Tags of the first points: "softmax  2.3x  91.2%", the share of the ceiling."""
    short = names(scene.points)
    gains = {a.end: a.label for a in scene.arrows if a.label}
    shares = {p: share_of_roof(p, scene.roofline) for p in ranked(scene)[:MOST_NAMES]}
    told = {p: percent(share) if math.isfinite(share) else "" for p, share in shares.items()}
    return [Tag(p, "  ".join(filter(None, (short[p.label], showable(gains.get(p, "")), told[p])))) for p in told]


def above(scene: Scene) -> list[Point]:
    """Points above their own ceiling, which is impossible."""
    return [p for p in scene.points if (p.placed or p.copies) and share_of_roof(p, scene.roofline) > ABOVE]


def draw_points(canvas: Canvas, tags: Sequence[Tag]) -> None:
    """Markers by implementation and memory level; labels avoid every marker."""
    from matplotlib.colors import to_rgba

    scene, look = canvas.scene, canvas.look
    placed = sorted((p for p in scene.points if p.placed), key=lambda p: (p.impl == scene.winner, -area(p.share)))
    tint, outline, sizes = colours(impls(scene), look), markers(impls(scene)), _seen(canvas, placed)
    tagged = {id(t.point) for t in tags}
    groups: dict[tuple[str, str, int], list[Point]] = {}
    kernels: dict[tuple[str, str, float], list[float]] = {}
    for point in placed:
        faint = len(placed) > CROWD and id(point) not in tagged
        # Each by itself, so that what lies on a larger one is drawn after it.
        groups.setdefault((point.impl, point.level, 0 if faint else id(point)), []).append(point)
        kernels.setdefault((point.label, point.impl, point.flops_per_s), []).append(point.intensity)
    for (_, impl, height), xs in kernels.items() if len(kernels) <= CROWD else ():
        if len(xs) > 1:  # the memory levels of one kernel
            ends = [min(xs), max(xs)]
            canvas.axes.plot(ends, [height, height], color=tint[impl], linewidth=0.9, alpha=0.45, zorder=3)
    for (impl, level, alone), members in groups.items():
        filled = FILLED.get(level, 0.0)
        _scatter(
            canvas,
            members,
            [sizes[id(p)] * (0.7 if outline[impl] == "D" else 1.0) for p in members],  # its corners reach further
            marker=outline[impl],
            facecolors=to_rgba(tint[impl], filled * (0.92 if alone else 0.3)),
            edgecolors=look.surface if filled == 1.0 else tint[impl],
            linewidths=0.0 if not alone else 0.8 if filled == 1.0 else 1.4,
            zorder=4 if not alone else 5.5 if scene.winner and impl == scene.winner else 5,
        )
    if wrong := [p for p in above(scene) if p.placed]:
        rings = [(2 * (radius(area(p.share)) + RING)) ** 2 for p in wrong]
        _scatter(canvas, wrong, rings, facecolors="none", edgecolors=look.warning, linewidths=1.6, zorder=7)
    canvas.mark(_spots(placed), [radius(area(p.share)) for p in placed])


def _seen(canvas: Canvas, drawn: Sequence[Point]) -> dict[int, float]:
    """Area of each point, in drawing order; a third if it would cover another."""
    sizes: dict[int, float] = {}
    spots = canvas.pixels(_spots(drawn))
    for at, point in enumerate(drawn):
        away = np.hypot(*(spots[:at] - spots[at]).T)
        under = [
            sizes[id(one)] for one, far in zip(drawn, away, strict=False) if far < 0.6 * radius(sizes[id(one)]) * POINT
        ]
        sizes[id(point)] = min([area(point.share), *(size / 3 for size in under)])
    return sizes


def _spots(points: Iterable[Point]) -> list[tuple[float, float]]:
    return [(p.intensity, p.flops_per_s) for p in points]


def _scatter(canvas: Canvas, points: Sequence[Point], areas: Sequence[float], **style: Any) -> None:
    xs, ys = zip(*_spots(points), strict=True)
    canvas.axes.scatter(xs, ys, s=areas, **style)


def draw_lower_bounds(canvas: Canvas) -> None:
    """Hollow diamonds on the ceiling: the best each algorithm could reach."""
    reachable = canvas.scene.roofline.attainable
    bounds = ((f.intensity, reachable(f.intensity, f.compute, f.level)) for f in canvas.scene.lower_bounds)
    spots = [(x, y) for x, y in bounds if math.isfinite(y) and y > 0]
    if not spots:
        return
    xs, ys = zip(*spots, strict=True)
    faces = {"facecolors": canvas.look.surface, "edgecolors": canvas.look.text}
    canvas.axes.scatter(xs, ys, s=LOWER_BOUND_AREA, marker=LOWER_BOUND, linewidths=1.1, zorder=4, **faces)
    canvas.mark(spots, [radius(LOWER_BOUND_AREA)] * len(spots))


def draw_arrows(canvas: Canvas) -> None:
    """From reference to candidate, in the candidate's colour; short ones are left out."""
    tint = colours(impls(canvas.scene), canvas.look)
    for arrow in canvas.scene.arrows:
        if not (arrow.start.placed and arrow.end.placed):
            continue
        ends = _spots((arrow.start, arrow.end))
        start, end = canvas.pixels(ends)
        shrink = [radius(area(p.share)) + 1.5 for p in (arrow.start, arrow.end)]
        if float(np.hypot(*(end - start))) <= (sum(shrink) + 5.0) * POINT:
            continue
        style = {
            "arrowstyle": "-|>,head_length=0.45,head_width=0.2",
            "color": tint.get(arrow.end.impl, canvas.look.text),
            "linewidth": 1.3,
            "alpha": 0.75,
            "shrinkA": shrink[0],
            "shrinkB": shrink[1],
        }
        canvas.axes.annotate("", xy=ends[1], xytext=ends[0], arrowprops=style, zorder=4)
        canvas.avoid(*ends)


def draw_tags(canvas: Canvas, tags: Sequence[Tag]) -> list[Tag]:
    """Draw texts beside their points, with leader lines; return those without room."""
    wrong = {id(p) for p in above(canvas.scene)}
    homeless = []
    spots = canvas.pixels(_spots(t.point for t in tags))
    for tag, spot in zip(tags, spots, strict=True):
        flagged = id(tag.point) in wrong
        width, height = size_of(tag.text, NAME)
        reach = (radius(area(tag.point.share)) + (RING if flagged else 0.0)) * POINT
        where = place(canvas.board, spot, reach, (width + 2 * POINT, height), POINT)
        if where is None:
            homeless.append(tag)
            continue
        if where.leader is not None:
            _leader(canvas, spot, reach, where.leader)
        canvas.write(where.box, tag.text, NAME, color=canvas.look.warning if flagged else canvas.look.text)
    return homeless


def _leader(canvas: Canvas, spot: Floats, reach: float, end: Floats) -> None:
    run = end - spot
    length = float(np.hypot(*run)) or 1.0
    ends = np.stack([spot + run / length * (reach + POINT), end - run / length * 1.5 * POINT])
    ends = canvas.axes.transData.inverted().transform(ends)
    canvas.axes.plot(ends[:, 0], ends[:, 1], color=canvas.look.muted, linewidth=0.7, zorder=3.5)
