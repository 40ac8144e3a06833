"""Points of a scene: markers, lower bounds, arrows, and names placed without overlap."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.figure.labels import Board, Floats, place
from roofline.figure.language import told
from roofline.figure.roofs import POINT, pixels, write
from roofline.figure.scene import ABOVE, Point, Scene, impls, share_of_roof
from roofline.figure.sheet import Sheet, measure
from roofline.figure.style import DPI, MARKERS, area, colours, radius
from roofline.wording import distinct_names, percent, showable

NAME = 8.6
NUMBER = 8.2
FEW = 4
LOWER_BOUND_AREA = 58.0
LOWER_BOUND = "D"
"""Hollow as the ring round a point above its ceiling is, and of another shape."""
RING = 3.0
"""How far [pt] the warning ring stands off its marker."""


DEAR = 125.0
"""Cost of a place from which a name confuses more than a number: far away, or over other markers."""


@dataclass(frozen=True)
class Tag:
    """A point that gets a text: its name and percent of the ceiling, or its number in the table."""

    point: Point
    text: str
    number: int = 0


def ranked(scene: Scene) -> list[Point]:
    """Points that get a text, the winner's first, by time.

    Other memory levels of a kernel, and the start of an arrow to a point of the same name, need none.
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
    """A showable short name for every label, equal ones counted, unshowable ones "#n"."""
    found: dict[str, str] = {}
    counts: Counter[str] = Counter()
    short = distinct_names(dict.fromkeys(p.label for p in points), limit)
    for index, (label, plain) in enumerate(short.items(), start=1):
        name = showable(plain, f"#{index}")
        counts[name] += 1
        found[label] = name if counts[name] == 1 else f"{name} ({counts[name]})"
    return found


def name_tags(scene: Scene) -> list[Tag]:
    """Tags with names: "softmax  2.3x  91 % of ceiling"; of many points "91 %" alone."""
    short = names(scene.points)
    gains = {a.end: a.label for a in scene.arrows if a.label}
    return [
        Tag(
            p,
            "  ".join(part for part in (short[p.label], showable(gains.get(p, "")), _share(p, scene)) if part),
        )
        for p in ranked(scene)
    ]


def number_tags(scene: Scene, most: int) -> list[Tag]:
    """Tags with numbers for the first `most` points; the table says what they are."""
    return [Tag(p, str(n), n) for n, p in enumerate(ranked(scene)[:most], start=1)]


def terse(scene: Scene) -> bool:
    """Whether so many names stand in the plot that the key says what their percent is of."""
    return len(ranked(scene)) > FEW


def _share(point: Point, scene: Scene) -> str:
    share = share_of_roof(point, scene.roofline)
    if not math.isfinite(share):
        return ""
    return percent(share) if terse(scene) else told(scene.lang, "{share} of ceiling", share=percent(share))


def draw_points(sheet: Sheet, axes: Any, scene: Scene, board: Board, tags: Sequence[Tag]) -> None:
    """Markers by implementation and memory level; every one becomes a disc that labels avoid."""
    placed = [p for p in scene.points if p.placed]
    tint = colours(impls(scene), sheet.look)
    crowded = len(placed) > 60
    tagged = {id(t.point) for t in tags}
    _join_levels(sheet, axes, placed, tint)
    groups: dict[tuple[str, str, bool], list[Point]] = {}
    for point in placed:
        groups.setdefault((point.impl, point.level, crowded and id(point) not in tagged), []).append(point)
    for (impl, level, faint), members in groups.items():
        axes.scatter(
            [p.intensity for p in members],
            [p.flops_per_s for p in members],
            s=[area(p.share) for p in members],
            marker=MARKERS.get(level, "D"),
            color=tint[impl],
            alpha=0.3 if faint else 0.92,
            edgecolors=sheet.look.surface,
            linewidths=0.0 if faint else 0.8,
            zorder=4 if faint else 5.5 if scene.winner and impl == scene.winner else 5,
        )
    _ring_above(sheet, axes, scene, placed)
    discs = pixels(axes, [(p.intensity, p.flops_per_s) for p in placed])
    radii = np.array([(radius(area(p.share)) + 1.0) * POINT for p in placed])
    board.discs = np.vstack([board.discs, np.column_stack([discs, radii])])


def _join_levels(sheet: Sheet, axes: Any, placed: Sequence[Point], tint: Mapping[str, str]) -> None:
    """A thin line through the memory levels of one kernel, which share their FLOP/s."""
    groups: dict[tuple[str, str, float], list[float]] = {}
    for point in placed:
        groups.setdefault((point.label, point.impl, point.flops_per_s), []).append(point.intensity)
    if len(groups) > 60:
        return
    for (_, impl, height), xs in groups.items():
        if len(xs) > 1:
            axes.plot([min(xs), max(xs)], [height, height], color=tint[impl], linewidth=0.9, alpha=0.45, zorder=3)


def above(scene: Scene) -> list[Point]:
    """Points that beat their own ceiling, which no kernel can."""
    return [p for p in scene.points if (p.placed or p.copies) and share_of_roof(p, scene.roofline) > ABOVE]


def _ring_above(sheet: Sheet, axes: Any, scene: Scene, placed: Sequence[Point]) -> None:
    wrong = {id(p) for p in above(scene)}
    members = [p for p in placed if id(p) in wrong]
    if members:
        axes.scatter(
            [p.intensity for p in members],
            [p.flops_per_s for p in members],
            s=[(2 * (radius(area(p.share)) + RING)) ** 2 for p in members],
            facecolors="none",
            edgecolors=sheet.look.warning,
            linewidths=1.6,
            zorder=7,
        )


def draw_lower_bounds(sheet: Sheet, axes: Any, scene: Scene, board: Board) -> None:
    """Hollow diamonds on the ceiling: what each algorithm could reach at best."""
    spots = [
        (f.intensity, y)
        for f in scene.lower_bounds
        if math.isfinite(y := scene.roofline.attainable(f.intensity, f.compute, f.level)) and y > 0
    ]
    if not spots:
        return
    xs, ys = zip(*spots, strict=True)
    axes.scatter(
        xs,
        ys,
        s=LOWER_BOUND_AREA,
        marker=LOWER_BOUND,
        facecolors=sheet.look.surface,
        edgecolors=sheet.look.text,
        linewidths=1.1,
        zorder=4,
    )
    reach = np.full((len(spots), 1), (radius(LOWER_BOUND_AREA) + 1.0) * POINT)
    board.discs = np.vstack([board.discs, np.hstack([pixels(axes, spots), reach])])


def draw_arrows(sheet: Sheet, axes: Any, scene: Scene, board: Board) -> None:
    """From reference to candidate, in the candidate's colour; too short ones are left out."""
    tint = colours(impls(scene), sheet.look)
    for arrow in scene.arrows:
        if not (arrow.start.placed and arrow.end.placed):
            continue
        start, end = pixels(axes, [(p.intensity, p.flops_per_s) for p in (arrow.start, arrow.end)])
        shrink = [radius(area(p.share)) + 1.5 for p in (arrow.start, arrow.end)]
        if float(np.hypot(*(end - start))) <= (sum(shrink) + 5.0) * POINT:
            continue
        axes.annotate(
            "",
            xy=(arrow.end.intensity, arrow.end.flops_per_s),
            xytext=(arrow.start.intensity, arrow.start.flops_per_s),
            arrowprops={
                "arrowstyle": "-|>,head_length=0.45,head_width=0.2",
                "color": tint.get(arrow.end.impl, sheet.look.text),
                "linewidth": 1.3,
                "alpha": 0.75,
                "shrinkA": shrink[0],
                "shrinkB": shrink[1],
            },
            zorder=4,
        )
        board.segments.append((start, end))


def draw_tags(sheet: Sheet, axes: Any, scene: Scene, board: Board, tags: Sequence[Tag]) -> list[Tag]:
    """Draw texts beside their points, with leader lines; returns those without room."""
    wrong = {id(p) for p in above(scene)}
    homeless = []
    spots = pixels(axes, [(t.point.intensity, t.point.flops_per_s) for t in tags])
    for tag, spot in zip(tags, spots, strict=True):
        flagged = id(tag.point) in wrong
        size, weight = (NUMBER, "bold") if tag.number else (NAME, "normal")
        width, height = (v * DPI for v in measure(tag.text, size, weight))
        reach = (radius(area(tag.point.share)) + (RING if flagged else 0.0)) * POINT
        where = place(board, spot, reach, (width + 2 * POINT, height), POINT)
        if where is None or (not tag.number and where.cost > DEAR):
            homeless.append(tag)
            continue
        colour = sheet.look.warning if flagged else sheet.look.text
        if where.leader is not None:
            _leader(sheet, axes, spot, reach, where.leader)
        write(sheet, where.box, tag.text, size, color=colour, weight=weight)
    return homeless


def _leader(sheet: Sheet, axes: Any, spot: Floats, reach: float, end: Floats) -> None:
    run = end - spot
    length = float(np.hypot(*run)) or 1.0
    ends = np.stack([spot + run / length * (reach + POINT), end - run / length * 1.5 * POINT])
    ends = axes.transData.inverted().transform(ends)
    axes.plot(ends[:, 0], ends[:, 1], color=sheet.look.muted, linewidth=0.7, zorder=3.5)
