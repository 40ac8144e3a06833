"""A run in a notebook: first lines, and the roofline or where the time goes."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

from profkit.report import figures
from profkit.report.sections import answer, method
from profkit.study.study import Study
from roofline.figure.plot import image


def html(study: Study) -> str:
    """HTML fragment without scripts, picture inline."""
    lines = [f"<b>{escape(answer.title(study))}</b>", *map(escape, answer.first_lines(study))]
    parts = ["<div>" + "<br>".join(lines)]
    for name, figure in figures.drawn(study).items():
        if name != "roofline" or method.placed(study):
            data = base64.b64encode(image(figure, Path("figure.png"))).decode()
            source = f"data:image/png;base64,{data}"
            parts.append(f'<div><img alt="{name}" style="max-width:800px;width:100%" src="{source}"></div>')
    return "".join([*parts, f"<small>{escape(study.path.as_posix())}</small></div>"])
