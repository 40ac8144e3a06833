"""A run as a notebook shows it: its first lines, where the time goes, the roofline."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from analyzers.waterfall import WORDS
from profkit.report import figures, sections, units
from profkit.report.names import short_name
from roofline.figure.style import THEMES

if TYPE_CHECKING:
    from analyzers.waterfall import Waterfall
    from profkit.study.study import Study

_LEAST = 0.01
"""Share of a bar below which a slice is in none of its words."""


def html(study: Study) -> str:
    """A fragment without scripts, whose picture it carries."""
    lines = [f"<b>{escape(sections.title(study))}</b>", *map(escape, sections.first_lines(study))]
    parts = ["<div>" + "<br>".join(lines), *_bar(study), *_picture(study)]
    return "".join([*parts, f"<small>{escape(study.path.as_posix())}</small></div>"])


def _bar(study: Study) -> Iterator[str]:
    """The waterfall of the best implementation as one bar, told below it."""
    fall = study.waterfalls.get(study.best.name) if study.best is not None else None
    if fall is None or not fall.time > 0:
        return
    style = "display:inline-block;height:14px;background:{};width:{:.2f}%"
    slices = [
        f'<span title="{escape(word)}" style="{style.format(THEMES["light"].kinds[kind], 100 * seconds / fall.time)}"></span>'
        for kind, word, seconds in _told(fall)
    ]
    said = ", ".join(f"{word} {units.text(s, 's')}" for _, word, s in _told(fall) if s >= _LEAST * fall.time)
    yield f'<div style="width:100%;max-width:800px;font-size:0">{"".join(slices)}</div>'
    yield f"<small>{escape(fall.impl)}, {units.text(fall.time, 's')}: {escape(said)}</small>"


def _told(fall: Waterfall) -> Iterator[tuple[str, str, float]]:
    for one in fall.slices:
        whose = ": ".join(text for text in (short_name(one.kernel) if one.kernel else "", one.cause) if text)
        yield one.kind, WORDS[one.kind][0] + (f" ({whose})" if whose else ""), one.seconds


def _picture(study: Study) -> Iterator[str]:
    """The roofline, where something stands on it."""
    scene = figures.scene_of(study)
    if any(point.placed or point.copies for point in scene.points):
        data = base64.b64encode(figures.png(scene)).decode()
        yield f'<div><img alt="roofline" style="max-width:800px;width:100%" src="data:image/png;base64,{data}"></div>'
