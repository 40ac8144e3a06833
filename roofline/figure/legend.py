"""The row of keys above the plot: implementations, memory levels, lower bounds, line styles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from roofline.figure.language import told
from roofline.figure.marks import LOWER_BOUND, above, terse
from roofline.figure.scene import Scene, ceilings_of, impls, level_names
from roofline.figure.sheet import WIDTH, Block, Sheet, fit, measure
from roofline.figure.style import MARKERS, Theme, colours
from roofline.wording import roof_name, showable

TEXT = 8.4
ROW = 0.21
LEFT = 0.2
GLYPH = 0.2
GAP = 0.2


class Key(NamedTuple):
    """One glyph (a marker, a line where `line` is a style, or none) and its meaning."""

    text: str
    colour: str
    marker: str = ""
    line: str = ""
    filled: bool = True


def keys(scene: Scene, look: Theme, *, named: bool = True) -> Block:
    """The keys of a scene, in rows as wide as the page. named: whether names stand in the plot."""
    rows: list[list[tuple[float, Key]]] = []
    x = LEFT
    for key in _wanted(scene, look, named):
        width = (GLYPH if key.marker or key.line else 0.0) + measure(key.text, TEXT)[0] + GAP
        if not rows or x + width > WIDTH - LEFT + GAP:
            rows.append([])
            x = LEFT
        rows[-1].append((x, key))
        x += width

    def draw(sheet: Sheet, top: float) -> None:
        for index, row in enumerate(rows):
            for x, key in row:
                _draw_key(sheet, key, x, top + ROW * (index + 0.5))

    return Block(ROW * len(rows) + 0.06, draw)


def _wanted(scene: Scene, look: Theme, named: bool) -> Iterator[Key]:
    placed = [p for p in scene.points if p.placed]
    drawn = {p.impl for p in scene.points}
    tint = {impl: colour for impl, colour in colours(impls(scene), look).items() if impl in drawn}
    if any(tint) and (len(tint) > 1 or placed):
        for impl, colour in tint.items():
            yield Key(fit(showable(impl, "other name") or "other", TEXT, 2.5), colour, "o")
    levels = sorted({p.level for p in placed}, key=level_names(scene).index)
    if len(levels) > 1:
        for level in levels:
            yield Key(
                told(scene.lang, "{level} intensity", level=roof_name(level)), look.muted, MARKERS.get(level, "D")
            )
    if any(math.isfinite(f.intensity) for f in scene.lower_bounds):
        yield Key(told(scene.lang, "lower bound of the task"), look.text, LOWER_BOUND, filled=False)
    if any(math.isfinite(p.share) for p in placed) and len(placed) > 1:
        yield Key(told(scene.lang, "area: share of time"), look.muted, "o")
    if named and terse(scene):
        yield Key(told(scene.lang, "%: of its ceiling"), look.muted)
    if any(p.placed for p in above(scene)):
        yield Key(told(scene.lang, "above its ceiling"), look.warning, "o", filled=False)
    if placed or scene.lower_bounds or not any(p.copies for p in scene.points):
        yield from _line_keys(scene, look)


def _line_keys(scene: Scene, look: Theme) -> Iterator[Key]:
    sources = {ceiling.source for ceiling in ceilings_of(scene)}
    solid = [words for source, words in (("measured", "measured"), ("ncu", "from ncu")) if source in sources]
    if solid:
        yield Key(told(scene.lang, " or ".join(solid) + " ceiling"), look.roof, line="-")
    if "datasheet" in sources:
        yield Key(told(scene.lang, "datasheet ceiling"), look.roof, line="--")


def _draw_key(sheet: Sheet, key: Key, x: float, middle: float) -> None:
    """Draw one key: `x` from the page's left edge, its middle below the top [inch]."""
    sheet.mark(
        [x, x + 0.14] if key.line else [x + 0.09] if key.marker else [],
        middle,
        color=key.colour,
        marker=key.marker or None,
        markersize=6.2,
        markerfacecolor=key.colour if key.filled else "none",
        markeredgewidth=1.2 if not key.filled else 0,
        linestyle={"-": "-", "--": (0, (2.2, 1.4)), "": "none"}[key.line],
        linewidth=1.4,
    )
    left = x + (GLYPH if key.marker or key.line else 0.0)
    sheet.text(left, middle, key.text, TEXT, va="center", color=sheet.look.muted)
