"""A run in a notebook: first lines, where the time goes, roofline."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from profkit.report import figures
from profkit.report.page.data import shares_of
from profkit.report.sections import answer
from profkit.report.waterfall import shown
from roofline import units
from roofline.figure.style import THEMES

if TYPE_CHECKING:
    from profkit.study.study import Study


def html(study: Study) -> str:
    """HTML fragment without scripts, picture inline."""
    lines = [f"<b>{escape(answer.title(study))}</b>", *map(escape, answer.first_lines(study))]
    parts, scene = ["<div>" + "<br>".join(lines), *_bar(study)], figures.scene_of(study)
    # Where something stands on it.
    if any(point.placed or point.copies for point in scene.points):
        data = base64.b64encode(figures.png(scene)).decode()
        source = f"data:image/png;base64,{data}"
        parts.append(f'<div><img alt="roofline" style="max-width:800px;width:100%" src="{source}"></div>')
    return "".join([*parts, f"<small>{escape(study.path.as_posix())}</small></div>"])


def _bar(study: Study) -> Iterator[str]:
    """Where the time goes as one bar, with a legend below."""
    whole = shown(study, most=0)
    if whole is None:
        return
    look, style = THEMES["light"], "display:inline-block;height:14px;background:{};width:{}"
    shares = shares_of(whole.blocks, whole.time)
    slices = [
        f'<span title="{escape(one["label"])}" style="{style.format(look.block(one["paint"]), one["share"])}"></span>'
        for one in shares
    ]
    said = ", ".join(f"{one['label']} {one['time']}" for one in shares)
    yield f'<div style="width:100%;max-width:800px;font-size:0">{"".join(slices)}</div>'
    yield f"<small>{escape(whole.name)}, {units.text(whole.time, 's')}: {escape(said)}</small>"
