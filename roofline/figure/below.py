"""Below the plot: bars of kernels without FLOP."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofline.figure.marks import names
from roofline.figure.scene import ABOVE, Point, Scene, impls, share_of_roof
from roofline.figure.sheet import WIDTH, Block, Sheet, fit, measure
from roofline.figure.style import colours, markers
from roofline.units import percent, text
from roofline.wording import roof_name, told

MOST = 8
"""Most bars; the rest are only counted."""
BAR, BARS_HEAD, TEXT, NOTE = 0.25, 0.36, 8.4, 7.8
BARS_LEFT, BARS_RIGHT = 2.0, 1.9


def copies(scene: Scene) -> list[Point]:
    """Copies to show, at most MOST: steps in order, else the winner's first, then the longest."""
    found = [p for p in scene.points if p.copies]
    if scene.steps:
        return found[:MOST]
    return sorted(found, key=lambda p: (p.impl != scene.winner, -p.time if math.isfinite(p.time) else 0.0))[:MOST]


def bars(scene: Scene) -> Block:
    """One bar per kernel on a track as long as its ceiling."""
    members = copies(scene)
    return Block(BARS_HEAD + BAR * len(members) + 0.12, lambda sheet, top: _draw_bars(sheet, scene, members, top))


def _draw_bars(sheet: Sheet, scene: Scene, members: Sequence[Point], top: float) -> None:
    hidden = sum(p.copies for p in scene.points) - len(members)
    more = " ({count} more not shown)" if hidden else ""
    head = told(scene.words, f"No FLOPs: bandwidth against its ceiling{more}", count=str(hidden))
    sheet.text(0.2, top + 0.06, head, 8.5, weight="bold")
    roofs = [scene.roofline.peak(p.level) for p in members]
    longest = max([r for r in roofs if math.isfinite(r)] + [p.bytes_per_s for p in members])
    axes = sheet.rows(BARS_LEFT, top + BARS_HEAD, BARS_RIGHT, len(members), BAR, longest)
    tint, outline = colours(impls(scene), sheet.look), markers(impls(scene))
    short = names(scene.points, 40)
    for row, (point, roof) in enumerate(zip(members, roofs, strict=True)):
        wrong = share_of_roof(point, scene.roofline) > ABOVE
        if math.isfinite(roof):
            axes.barh(row, roof, 0.56, color=sheet.look.grid, zorder=1)
            axes.plot([roof, roof], [row - 0.38, row + 0.38], color=sheet.look.roof, linewidth=1.3, zorder=3)
        edge = {"edgecolor": sheet.look.warning, "linewidth": 1.4} if wrong else {}
        axes.barh(row, point.bytes_per_s, 0.56, color=tint[point.impl], zorder=2, **edge)
        middle = top + BARS_HEAD + BAR * (row + 0.5)
        sheet.mark([BARS_LEFT - 0.12], middle, marker=outline[point.impl], markersize=5.0, color=tint[point.impl])
        _texts(sheet, scene, point, short[point.label], middle, wrong)


def _texts(sheet: Sheet, scene: Scene, point: Point, name: str, middle: float, wrong: bool) -> None:
    colour = sheet.look.warning if wrong else sheet.look.text
    sheet.text(BARS_LEFT - 0.24, middle, fit(name, TEXT, BARS_LEFT - 0.44), TEXT, ha="right", va="center")
    share = share_of_roof(point, scene.roofline)
    left = WIDTH - BARS_RIGHT + 0.1
    sheet.text(left, middle, text(point.bytes_per_s, "B/s"), TEXT, va="center", color=colour)
    of_roof = told(scene.words, "{share} of {roof}", share=percent(share), roof=roof_name(point.level))
    known = of_roof if math.isfinite(share) else told(scene.words, "ceiling unknown")
    offset = measure("8.88 TB/s", TEXT)[0] + 0.08
    sheet.text(left + offset, middle, known, NOTE, va="center", color=sheet.look.muted)
