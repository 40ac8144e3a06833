"""The numbered kernels of a crowded figure, written out below it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofline.figure.language import told
from roofline.figure.marks import Tag, names
from roofline.figure.scene import ABOVE, Scene, impls, share_of_roof
from roofline.figure.sheet import WIDTH, Block, Sheet, fit
from roofline.figure.style import colours
from roofline.wording import percent, roof_unit, showable, si

TEXT = 7.8
ROW = 0.178
HEAD = 0.2
LEFT = 0.2
GAP = 0.3
NAMES = 0.42
"""Where names begin, right of the number and its dot [inch]."""
ALONE = 5.6
"""Width [inch] of a single block: lines stay easy to follow."""
SINGLE = 18
"""Up to this many rows in one block; more go side by side."""


def rows(scene: Scene, tags: Sequence[Tag]) -> Block:
    """Number, dot, name, share of the time, achieved, percent of the ceiling."""
    side = 1 if len(tags) <= SINGLE else 2
    height = HEAD + ROW * math.ceil(len(tags) / side) + 0.12
    return Block(height, lambda sheet, top: _draw(sheet, scene, tags, side, top))


def _draw(sheet: Sheet, scene: Scene, tags: Sequence[Tag], side: int, top: float) -> None:
    width = (WIDTH - 2 * LEFT - GAP) / 2 if side == 2 else ALONE
    gains = {a.end: showable(a.label) for a in scene.arrows if a.label}
    tint = colours(impls(scene), sheet.look)
    per_block = math.ceil(len(tags) / side)
    short = names(scene.points, 20 if side == 2 else 84)
    for block in range(side):
        left = LEFT + block * (width + GAP)
        _row(sheet, left, width, top, _heads(scene.lang), sheet.look.muted)
        for row, tag in enumerate(tags[block * per_block : (block + 1) * per_block]):
            share = share_of_roof(tag.point, scene.roofline)
            cells = (
                str(tag.number),
                f"{short[tag.point.label]}  {gains.get(tag.point, '')}".rstrip(),
                percent(tag.point.share) if math.isfinite(tag.point.share) else told(scene.lang, "all"),
                si(tag.point.flops_per_s, roof_unit(tag.point.compute)),
                percent(share),
            )
            colour = sheet.look.warning if share > ABOVE else sheet.look.text
            _row(sheet, left, width, top + HEAD + row * ROW, cells, colour)
            _dot(sheet, left + 0.32, top + HEAD + (row + 0.31) * ROW, tint[tag.point.impl])


def _heads(lang: str) -> tuple[str, str, str, str, str]:
    kernel, time, achieved, roof = (told(lang, text) for text in ("kernel", "of time", "achieved", "of ceiling"))
    return "", kernel, time, achieved, roof


def _dot(sheet: Sheet, x: float, y: float, colour: str) -> None:
    from matplotlib.lines import Line2D

    spot = Line2D([x / WIDTH], [1 - y / sheet.height], marker="o", markersize=4.6, linestyle="none", color=colour)
    sheet.figure.add_artist(spot)


def _row(sheet: Sheet, left: float, width: float, y: float, cells: tuple[str, ...], colour: str) -> None:
    number, name, share, achieved, roof = cells
    right = left + width
    sheet.text(left + 0.2, y, number, TEXT, ha="right", color=colour, weight="bold")
    sheet.text(left + NAMES, y, fit(name, TEXT, width - NAMES - 1.84), TEXT, color=colour)
    sheet.text(right - 1.42, y, share, TEXT, ha="right", color=colour)
    sheet.text(right - 0.52, y, achieved, TEXT, ha="right", color=colour)
    sheet.text(right, y, roof, TEXT, ha="right", color=colour)
