"""Bars of achieved bandwidth against the ceiling, for kernels without a FLOP."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofline.figure.language import told
from roofline.figure.marks import names
from roofline.figure.scene import ABOVE, Point, Scene, impls, share_of_roof
from roofline.figure.sheet import WIDTH, Block, Sheet, fit, measure
from roofline.figure.style import colours
from roofline.wording import percent, roof_name, si

MOST = 8
ROW = 0.25
HEAD = 0.36
TEXT = 8.4
NOTE = 7.8
LEFT = 2.0
RIGHT = 1.9


def rows(scene: Scene) -> list[Point]:
    """The copies to show, the winner's first, then the longest; at most eight."""
    copies = [p for p in scene.points if p.copies]
    return sorted(copies, key=lambda p: (p.impl != scene.winner, -p.time if math.isfinite(p.time) else 0.0))[:MOST]


def bars(scene: Scene) -> Block:
    """One bar a kernel on a track as long as its ceiling."""
    members = rows(scene)
    return Block(HEAD + ROW * len(members) + 0.12, lambda sheet, top: _draw(sheet, scene, members, top))


def _draw(sheet: Sheet, scene: Scene, members: Sequence[Point], top: float) -> None:
    hidden = sum(p.copies for p in scene.points) - len(members)
    more = " ({count} more not shown)" if hidden else ""
    head = told(scene.lang, f"No FLOPs: bandwidth against its ceiling{more}", count=str(hidden))
    sheet.text(0.2, top + 0.06, head, 8.5, weight="bold")
    axes = sheet.axes(LEFT, top + HEAD, WIDTH - LEFT - RIGHT, ROW * len(members))
    axes.set_axis_off()
    roofs = [scene.roofline.peak(p.level) for p in members]
    axes.set_xlim(0, max([r for r in roofs if math.isfinite(r)] + [p.bytes_per_s for p in members]))
    axes.set_ylim(len(members) - 0.5, -0.5)
    tint = colours(impls(scene), sheet.look)
    short = names(scene.points, 40)
    for row, (point, roof) in enumerate(zip(members, roofs, strict=True)):
        wrong = share_of_roof(point, scene.roofline) > ABOVE
        if math.isfinite(roof):
            axes.barh(row, roof, 0.56, color=sheet.look.grid, zorder=1)
            axes.plot([roof, roof], [row - 0.38, row + 0.38], color=sheet.look.roof, linewidth=1.3, zorder=3)
        edge = {"edgecolor": sheet.look.warning, "linewidth": 1.4} if wrong else {}
        axes.barh(row, point.bytes_per_s, 0.56, color=tint[point.impl], zorder=2, **edge)
        _texts(sheet, scene, point, short[point.label], top + HEAD + ROW * (row + 0.5), wrong)


def _texts(sheet: Sheet, scene: Scene, point: Point, name: str, middle: float, wrong: bool) -> None:
    colour = sheet.look.warning if wrong else sheet.look.text
    sheet.text(LEFT - 0.1, middle, fit(name, TEXT, LEFT - 0.3), TEXT, ha="right", va="center")
    share = share_of_roof(point, scene.roofline)
    left = WIDTH - RIGHT + 0.1
    sheet.text(left, middle, si(point.bytes_per_s, "B/s"), TEXT, va="center", color=colour)
    of_roof = told(scene.lang, "{share} of {roof}", share=percent(share), roof=roof_name(point.level))
    known = of_roof if math.isfinite(share) else told(scene.lang, "ceiling unknown")
    offset = measure("8.88 TB/s", TEXT)[0] + 0.08
    sheet.text(left + offset, middle, known, NOTE, va="center", color=sheet.look.muted)
