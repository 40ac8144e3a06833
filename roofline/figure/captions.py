"""Text around the plot: title, keys, warnings, and the source of every ceiling."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from roofline.figure.marks import LOWER_BOUND, Tag, above, names, ranked
from roofline.figure.scene import Scene, ceilings_of, compute_names, impls, level_names, share_of_roof
from roofline.figure.sheet import WIDTH, Block, Sheet, fit, measure, wrap
from roofline.figure.style import FILLED, Theme, colours, markers
from roofline.units import percent
from roofline.wording import roof_name, showable, told

TITLE, SUBTITLE, KEY, CAPTION = 12.5, 9.0, 8.4, 8.0
MOST = 2
"""Most lines of a caption."""
LEFT, ROW, GLYPH = 0.2, 0.21, 0.2
"""Margin of the page, height of a row of keys, and width of a glyph and of the gap after a key [inch]."""
SPACING = 1.45


_Line = tuple[str, float, str, str]
"""Text, size [pt], weight, and name of a theme colour."""


def _block(lines: Sequence[_Line], above: float, below: float) -> Block:
    """Lines of text with this space [inch] above and below."""

    def draw(sheet: Sheet, top: float) -> None:
        y = top + above
        for text, size, weight, colour in lines:
            sheet.text(LEFT, y, text, size, weight=weight, color=getattr(sheet.look, colour))
            y += _pitch(size)

    return Block(above + sum(_pitch(size) for _, size, _, _ in lines) + below, draw)


def _pitch(size: float) -> float:
    return size * SPACING / 72.0


def head(scene: Scene) -> Block:
    """Title and subtitle; the device replaces a missing subtitle."""
    width = WIDTH - 2 * LEFT
    title = [(line, TITLE, "bold", "text") for line in wrap(showable(scene.title), TITLE, width, "bold")]
    words = showable(scene.subtitle) or showable(scene.roofline.device)
    subtitle = [(line, SUBTITLE, "normal", "muted") for line in wrap(words, SUBTITLE, width)]
    return _block([*title, *subtitle], above=0.16, below=0.06)


class Key(NamedTuple):
    """One glyph (a marker, a line where `line` is a style, or none) and its meaning."""

    text: str
    colour: str
    marker: str = ""
    line: str = ""
    filled: float = 1.0


def keys(scene: Scene, look: Theme) -> Block:
    """The keys of a scene, in rows as wide as the page."""
    rows: list[list[tuple[float, Key]]] = []
    x = LEFT
    for key in _wanted(scene, look):
        width = (GLYPH if key.marker or key.line else 0.0) + measure(key.text, KEY)[0] + GLYPH
        if not rows or x + width > WIDTH - LEFT + GLYPH:
            rows.append([])
            x = LEFT
        rows[-1].append((x, key))
        x += width

    def draw(sheet: Sheet, top: float) -> None:
        for index, row in enumerate(rows):
            for x, key in row:
                _draw_key(sheet, key, x, top + ROW * (index + 0.5))

    return Block(ROW * len(rows) + 0.06, draw)


def _wanted(scene: Scene, look: Theme) -> Iterator[Key]:
    placed = [p for p in scene.points if p.placed]
    drawn = {p.impl for p in scene.points}
    tint = {impl: colour for impl, colour in colours(impls(scene), look).items() if impl in drawn}
    if any(tint) and (len(tint) > 1 or placed):
        outline = markers(impls(scene))
        for impl, colour in tint.items():
            yield Key(fit(showable(impl, "other name") or "other", KEY, 2.5), colour, outline[impl])
    levels = sorted({p.level for p in placed}, key=level_names(scene).index)
    if len(levels) > 1:
        for level in levels:
            words = told(scene.words, "{level} intensity", level=roof_name(level))
            yield Key(words, look.muted, "o", filled=FILLED.get(level, 0.0))
    if any(math.isfinite(f.intensity) for f in scene.lower_bounds):
        yield Key(told(scene.words, "lower bound of the task"), look.text, LOWER_BOUND, filled=0.0)
    if any(math.isfinite(p.share) for p in placed) and len(placed) > 1:
        yield Key(told(scene.words, "area: share of time"), look.muted, "o")
    if any(math.isfinite(share_of_roof(p, scene.roofline)) for p in placed):
        yield Key(told(scene.words, "%: of the roofline"), look.muted)
    if any(p.placed for p in above(scene)):
        yield Key(told(scene.words, "above its ceiling"), look.warning, "o", filled=0.0)
    if placed or scene.lower_bounds or not any(p.copies for p in scene.points):
        sources = {ceiling.source for ceiling in ceilings_of(scene)}
        solid = [words for source, words in (("measured", "measured"), ("ncu", "from ncu")) if source in sources]
        if solid:
            yield Key(told(scene.words, " or ".join(solid) + " ceiling"), look.roof, line="-")
        if "datasheet" in sources:
            yield Key(told(scene.words, "datasheet ceiling"), look.roof, line="--")


def _draw_key(sheet: Sheet, key: Key, x: float, middle: float) -> None:
    """Draw one key at `x` from the page's left edge, its middle below the top [inch]."""
    from matplotlib.colors import to_rgba

    sheet.mark(
        [x, x + 0.14] if key.line else [x + 0.09] if key.marker else [],
        middle,
        color=key.colour,
        marker=key.marker or None,
        markersize=6.2,
        markerfacecolor=to_rgba(key.colour, key.filled),
        markeredgecolor=key.colour,
        markeredgewidth=1.2 if key.filled < 1.0 else 0,
        linestyle={"-": "-", "--": (0, (2.2, 1.4)), "": "none"}[key.line],
        linewidth=1.4,
    )
    left = x + (GLYPH if key.marker or key.line else 0.0)
    sheet.text(left, middle, key.text, KEY, va="center", color=sheet.look.muted)


def foot(scene: Scene, tags: Sequence[Tag]) -> Block:
    """Warnings, then two lines: points not drawn, the source of every ceiling, the caption."""
    width = WIDTH - 2 * LEFT
    warned = [line for text in _warnings(scene) for line in wrap(text, CAPTION, width)]
    end, space = told(scene.words, "."), "" if told(scene.words, ".") == "。" else " "
    parts = [showable(text) for text in (*_counts(scene, tags), *_sources(scene), *scene.caption) if text]
    plain = wrap(space.join(text if text.endswith((".", "。")) else text + end for text in parts), CAPTION, width)
    if len(plain) > MOST:
        last = plain[MOST - 1]
        while measure(f"{last}…", CAPTION)[0] > width:
            last = last[:-1].rstrip()
        plain = [*plain[: MOST - 1], f"{last}…"]
    lines = [(line, CAPTION, "normal", "warning") for line in warned]
    return _block([*lines, *((line, CAPTION, "normal", "muted") for line in plain)], above=0.04, below=0.14)


def _warnings(scene: Scene) -> Iterator[str]:
    words = scene.words
    wrong = above(scene)
    if wrong:
        short = names(scene.points)
        shown = told(words, ", ").join(
            f"{short[p.label]} {percent(share_of_roof(p, scene.roofline))}" for p in wrong[:4]
        )
        if len(wrong) > 4:
            shown = told(words, "{names} and {count} more", names=shown, count=str(len(wrong) - 4))
        yield told(
            words,
            "Above the ceiling: {names}. Check unit, precision, clock and counting; or the ceiling was measured too low.",
            names=shown,
        )
    wanted = (*compute_names(scene), *level_names(scene))
    unknown = [roof_name(n) for n in dict.fromkeys(wanted) if scene.roofline.get(n) is None]
    if unknown:
        yield told(
            words,
            "No ceiling known for {device}: {roofs}. Measure the ceilings to judge these kernels.",
            device=showable(scene.roofline.device) or told(words, "this device"),
            roofs=told(words, ", ").join(unknown),
        )


def _counts(scene: Scene, tags: Sequence[Tag]) -> Iterator[str]:
    words = scene.words
    lost = sum(not (p.placed or p.copies) for p in scene.points)
    if lost:
        yield told(
            words,
            "{lost} of {count} points not shown: intensity or FLOP/s not measured.",
            lost=str(lost),
            count=str(len(scene.points)),
        )
    named = {id(tag.point) for tag in tags}
    rest = sum(id(point) not in named for point in ranked(scene))
    if rest:
        yield told(words, "{count} more points without a name.", count=str(rest))
    unshown = {p.label for p in scene.points if showable(p.label, "#") != " ".join(p.label.split())}
    if unshown:
        yield told(words, "#n: the n-th name, in characters that no font on this machine can draw.")


def _sources(scene: Scene) -> Iterator[str]:
    """ "Ceilings: FP32, DRAM measured; INT8 listed, dense (NVIDIA H200 datasheet)"."""
    words = scene.words
    groups: dict[tuple[str, str], list[str]] = {}
    for ceiling in ceilings_of(scene):
        # The document a listed ceiling is from; the rest of its note is for the JSON.
        document = re.split(r" \(|;", ceiling.note, maxsplit=1)[0] if ceiling.source == "datasheet" else ""
        groups.setdefault((ceiling.source, document), []).append(roof_name(ceiling.name))
    known = {"measured": "{roofs} measured", "ncu": "{roofs} from ncu's counters", "datasheet": "{roofs} listed, dense"}
    parts = [
        told(words, known[source] + (" ({sheet})" if sheet else ""), roofs=told(words, ", ").join(members), sheet=sheet)
        for (source, sheet), members in groups.items()
    ]
    if parts:
        yield told(words, "Ceilings: {sources}.", sources=told(words, "; ").join(parts))
