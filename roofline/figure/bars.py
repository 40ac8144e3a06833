"""The waterfall down to the lower bound, as bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.figure.plot import settings
from roofline.figure.sheet import WIDTH, Sheet, fit, new_figure, wrap
from roofline.figure.style import theme

NAMES, AMOUNTS = 3.1, 1.3
"""Room [inch] left of the bars of a waterfall for names, and right of them for amounts."""
NAME, NOTE, AMOUNT, TITLE, SUBTITLE = 8.8, 7.8, 8.6, 12.5, 9.0
HATCHES = {"lower_bound": "", "work": "", "excess": "///", "kernels": "|||", "gaps": "xxx"}
"""Kinds are told apart without their colour, too."""


@dataclass(frozen=True)
class Step:
    """One bar from `start` to `end` (start <= end, one unit) with what it is, why, and how much."""

    label: str
    note: str
    start: float
    end: float
    amount: str
    kind: str = ""


@dataclass(frozen=True)
class Steps:
    """Everything in one waterfall; the first step is the whole. `theme`: light or dark."""

    steps: tuple[Step, ...]
    title: str = ""
    subtitle: str = ""
    theme: str = "light"


def draw_steps(scene: Steps) -> Any:
    """The matplotlib Figure, 8 inches wide; raises RooflineError for an unknown theme."""
    with settings():
        look, row = theme(scene.theme), 0.38
        subtitle = wrap(scene.subtitle, SUBTITLE, WIDTH - 0.4)
        top, rows = 0.78 + 0.17 * max(0, len(subtitle) - 1), max(1, len(scene.steps))
        sheet = new_figure(look, top + row * rows + 0.14)
        sheet.text(0.2, 0.14, fit(scene.title, TITLE, WIDTH - 0.4, "bold"), TITLE, weight="bold")
        for at, line in enumerate(subtitle):
            sheet.text(0.2, 0.42 + 0.17 * at, line, SUBTITLE, color=look.muted)
        longest = max((one.end for one in scene.steps), default=1.0) or 1.0
        axes = sheet.rows(NAMES, top, AMOUNTS, rows, row, longest)
        for at, one in enumerate(scene.steps):
            colour, hatch = look.kinds.get(one.kind, look.text), HATCHES.get(one.kind, "")
            style = {"color": colour, "hatch": hatch, "edgecolor": look.surface, "linewidth": 0.4}
            axes.barh(at, one.end - one.start, 0.62, left=one.start, zorder=2, **style)
            if at + 1 < len(scene.steps):
                below = scene.steps[at + 1].end
                axes.plot([below, below], [at - 0.31, at + 1.31], color=look.muted, linewidth=0.6, zorder=1)
            _texts(sheet, one, top + row * (at + 0.5), whole=not at)
        return sheet.figure


def _texts(sheet: Sheet, one: Step, middle: float, *, whole: bool) -> None:
    right, style = NAMES - 0.12, {"ha": "right", "va": "center"}
    name, weight = fit(one.label, NAME, NAMES - 0.35), "bold" if whole else "normal"
    sheet.text(right, middle - 0.08 if one.note else middle, name, NAME, weight=weight, **style)
    if one.note:
        sheet.text(right, middle + 0.085, fit(one.note, NOTE, NAMES - 0.3), NOTE, color=sheet.look.muted, **style)
    sheet.text(WIDTH - AMOUNTS + 0.1, middle, one.amount, AMOUNT, va="center")
