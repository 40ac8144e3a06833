"""The words around the plot: title, caveats, and where every ceiling comes from."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from roofline.ceilings import Ceiling
from roofline.figure.canvas import Canvas, size_of
from roofline.figure.labels import Box
from roofline.figure.language import told
from roofline.figure.marks import Tag, above, names, ranked
from roofline.figure.scene import Scene, ceilings_of, compute_names, level_names, share_of_roof
from roofline.figure.sheet import WIDTH, Block, Sheet, measure, wrap
from roofline.wording import percent, roof_name, showable

TITLE, SUBTITLE, CAPTION = 12.5, 9.0, 8.0
MOST = 2
"""Lines of a caption; the rest of how it was measured is in the run."""
LEFT = 0.2
SPACING = 1.45


_Line = tuple[str, float, str, str]
"""Text, size [pt], weight, and the name of a colour of the theme."""


def _block(lines: Sequence[_Line], above: float, below: float) -> Block:
    """Lines of text with so much space [inch] above and below them."""

    def draw(sheet: Sheet, top: float) -> None:
        y = top + above
        for text, size, weight, colour in lines:
            sheet.text(LEFT, y, text, size, weight=weight, color=getattr(sheet.look, colour))
            y += _pitch(size)

    return Block(above + sum(_pitch(size) for _, size, _, _ in lines) + below, draw)


def _pitch(size: float) -> float:
    return size * SPACING / 72.0


def head(scene: Scene) -> Block:
    """Title and subtitle; the device stands in for a missing subtitle."""
    width = WIDTH - 2 * LEFT
    title = [(line, TITLE, "bold", "text") for line in wrap(showable(scene.title), TITLE, width, "bold")]
    words = showable(scene.subtitle) or showable(scene.roofline.device)
    subtitle = [(line, SUBTITLE, "normal", "muted") for line in wrap(words, SUBTITLE, width)]
    return _block([*title, *subtitle], above=0.16, below=0.06)


def foot(scene: Scene, tags: Sequence[Tag]) -> Block:
    """Warnings, then two lines: points not drawn, the source of every ceiling, the caption."""
    width = WIDTH - 2 * LEFT
    warned = [line for text in _warnings(scene) for line in wrap(text, CAPTION, width)]
    end, space = told(scene.lang, "."), "" if told(scene.lang, ".") == "。" else " "
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
    lang = scene.lang
    wrong = above(scene)
    if wrong:
        short = names(scene.points)
        shown = told(lang, ", ").join(
            f"{short[p.label]} {percent(share_of_roof(p, scene.roofline))}" for p in wrong[:4]
        )
        if len(wrong) > 4:
            shown = told(lang, "{names} and {count} more", names=shown, count=str(len(wrong) - 4))
        yield told(
            lang,
            "Above the ceiling: {names}. Check unit, precision, clock and counting; or the ceiling was measured too low.",
            names=shown,
        )
    wanted = (*compute_names(scene), *level_names(scene))
    unknown = [roof_name(n) for n in dict.fromkeys(wanted) if scene.roofline.get(n) is None]
    if unknown:
        yield told(
            lang,
            "No ceiling known for {device}: {roofs}. Measure the ceilings to judge these kernels.",
            device=_device(scene),
            roofs=told(lang, ", ").join(unknown),
        )


def _device(scene: Scene) -> str:
    return showable(scene.roofline.device) or told(scene.lang, "this device")


def _counts(scene: Scene, tags: Sequence[Tag]) -> Iterator[str]:
    lang = scene.lang
    lost = sum(not (p.placed or p.copies) for p in scene.points)
    if lost:
        yield told(
            lang,
            "{lost} of {count} points not shown: intensity or FLOP/s not measured.",
            lost=str(lost),
            count=str(len(scene.points)),
        )
    rest = ranked(scene)[len(tags) :]
    if tags and tags[0].number and rest:
        share = math.fsum(p.share for p in rest if math.isfinite(p.share))
        more = ", {share} of the time." if share else "."
        yield told(lang, f"{{count}} more kernels without a number{more}", count=str(len(rest)), share=percent(share))
    unshown = {p.label for p in scene.points if showable(p.label, "#") != " ".join(p.label.split())}
    if unshown:
        yield told(lang, "#n: the n-th name, in characters that no font on this machine can draw.")


def _sources(scene: Scene) -> Iterator[str]:
    """ "Ceilings: FP32, DRAM measured; INT8 listed, dense (NVIDIA H200 datasheet)"."""
    lang = scene.lang
    groups: dict[tuple[str, str], list[str]] = {}
    for ceiling in ceilings_of(scene):
        groups.setdefault((ceiling.source, _sheet(ceiling)), []).append(roof_name(ceiling.name))
    words = {"measured": "{roofs} measured", "ncu": "{roofs} from ncu's counters", "datasheet": "{roofs} listed, dense"}
    parts = [
        told(lang, words[source] + (" ({sheet})" if sheet else ""), roofs=told(lang, ", ").join(members), sheet=sheet)
        for (source, sheet), members in groups.items()
    ]
    if parts:
        yield told(lang, "Ceilings: {sources}.", sources=told(lang, "; ").join(parts))


def _sheet(ceiling: Ceiling) -> str:
    """The document a listed ceiling is from; the rest of its note is for the JSON."""
    return re.split(r" \(|;", ceiling.note, maxsplit=1)[0] if ceiling.source == "datasheet" else ""


def draw_absence(canvas: Canvas) -> None:
    """Say in the plot itself that there is nothing to see, or nothing to judge it by."""
    scene, frame = canvas.scene, canvas.board.frame
    parts = []
    if not any(p.placed for p in scene.points) and not scene.lower_bounds:
        parts.append(told(scene.lang, "no kernel with a measured intensity and FLOP/s"))
    if not ceilings_of(scene):
        parts.append(told(scene.lang, "no ceiling known for {device}", device=_device(scene)))
    if not parts:
        return
    text = told(scene.lang, "; ").join(parts)
    places = ((dx, 0.46 - row * 0.06) for row in range(14) for dx in (0.0, -0.2, 0.2))
    boxes = (Box(frame.x + dx * frame.width, frame.y + dy * frame.height, *size_of(text, 9.0)) for dx, dy in places)
    canvas.label(text, 9.0, boxes, canvas.look.muted)
