"""A waterfall as a figure: bars that step down from a whole to the least left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roofline.figure.plot import settings
from roofline.figure.sheet import WIDTH, Sheet, fit, new_figure, wrap
from roofline.figure.style import Theme, theme

ROW, HEAD, FOOT = 0.38, 0.78, 0.14
NAMES, AMOUNTS = 3.1, 1.3
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
    """Everything in one figure; the first step is the whole. `theme`: light or dark."""

    steps: tuple[Step, ...]
    title: str = ""
    subtitle: str = ""
    theme: str = "light"


def fill(kind: str, look: Theme) -> str:
    """The colour of a kind of time; what is none of them is drawn as text is."""
    return look.kinds.get(kind, look.text)


def draw_steps(scene: Steps) -> Any:
    """The matplotlib Figure, 8 inches wide; raises RooflineError for an unknown theme."""
    with settings():
        look = theme(scene.theme)
        lines = wrap(scene.subtitle, SUBTITLE, WIDTH - 0.4) if scene.subtitle else []
        head = HEAD + 0.17 * max(0, len(lines) - 1)
        sheet = new_figure(look, head + ROW * max(1, len(scene.steps)) + FOOT)
        sheet.text(0.2, 0.14, fit(scene.title, TITLE, WIDTH - 0.4, "bold"), TITLE, weight="bold")
        for row, line in enumerate(lines):
            sheet.text(0.2, 0.42 + 0.17 * row, line, SUBTITLE, color=look.muted)
        _bars(sheet, scene.steps, head)
        return sheet.figure


def _bars(sheet: Sheet, steps: Sequence[Step], top: float) -> None:
    look, width = sheet.look, WIDTH - NAMES - AMOUNTS
    axes = sheet.axes(NAMES, top, width, ROW * max(1, len(steps)))
    axes.set_axis_off()
    axes.set_xlim(0, max((one.end for one in steps), default=1.0) or 1.0)
    axes.set_ylim(max(1, len(steps)) - 0.5, -0.5)
    for row, one in enumerate(steps):
        axes.barh(
            row,
            one.end - one.start,
            0.62,
            left=one.start,
            color=fill(one.kind, look),
            hatch=HATCHES.get(one.kind, ""),
            edgecolor=look.surface,
            linewidth=0.4,
            zorder=2,
        )
        if row + 1 < len(steps):
            below = steps[row + 1].end
            axes.plot([below, below], [row - 0.31, row + 1.31], color=look.muted, linewidth=0.6, zorder=1)
        middle = top + ROW * (row + 0.5)
        above = middle - 0.08 if one.note else middle
        name = fit(one.label, NAME, NAMES - 0.35)
        sheet.text(NAMES - 0.12, above, name, NAME, ha="right", va="center", weight="bold" if not row else "normal")
        if one.note:
            note = fit(one.note, NOTE, NAMES - 0.3)
            sheet.text(NAMES - 0.12, middle + 0.085, note, NOTE, ha="right", va="center", color=look.muted)
        sheet.text(WIDTH - AMOUNTS + 0.1, middle, one.amount, AMOUNT, va="center")
