"""Readings of one thing as bars: what all have in common, and on it what each reads besides or leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.figure.plot import settings
from roofline.figure.sheet import WIDTH, Sheet, fit, measure, new_figure, wrap
from roofline.figure.style import Theme, theme

ROW, HEAD, KEYS, FOOT = 0.3, 0.68, 0.3, 0.16
NAMES, AMOUNTS = 2.5, 1.75
NAME, AMOUNT, TITLE, SUBTITLE, KEY = 8.6, 8.4, 12.5, 9.0, 8.2
LONGEST = 5.0
"""Times the common part that a bar is drawn long."""
HATCHES = ("///", "xxx", "...", "\\\\\\", "|||", "+++")


@dataclass(frozen=True)
class Stack:
    """One reading: `parts` by name add up with the common part to it; a negative one is what the reading leaves out."""

    label: str
    parts: Mapping[str, float]
    amount: str


@dataclass(frozen=True)
class Stacks:
    """Everything in one figure. `common`: the part that all share, one unit with the parts; `names`: of it and of the parts."""

    stacks: Sequence[Stack]
    common: float
    names: Mapping[str, str]
    title: str = ""
    subtitle: str = ""
    theme: str = "light"


def draw_stacks(scene: Stacks) -> Any:
    """The matplotlib Figure, 8 inches wide; raises RooflineError for an unknown theme."""
    with settings():
        look = theme(scene.theme)
        lines = wrap(scene.subtitle, SUBTITLE, WIDTH - 0.4)
        top = HEAD + 0.17 * max(0, len(lines) - 1)
        sheet = new_figure(look, top + KEYS + ROW * max(1, len(scene.stacks)) + FOOT)
        sheet.text(0.2, 0.14, fit(scene.title, TITLE, WIDTH - 0.4, "bold"), TITLE, weight="bold")
        for row, line in enumerate(lines):
            sheet.text(0.2, 0.42 + 0.17 * row, line, SUBTITLE, color=look.muted)
        _keys(sheet, scene, top)
        _bars(sheet, scene, top + KEYS)
        return sheet.figure


def _paint(name: str, scene: Stacks, look: Theme) -> dict[str, Any]:
    """Colour and hatch of a part; the common one, first of the names, is plain."""
    place = list(scene.names).index(name)
    if not place:
        return {"color": look.kinds["lower_bound"], "edgecolor": look.surface}
    colour = look.series[(place - 1) % len(look.series)]
    return {"color": colour, "hatch": HATCHES[(place - 1) % len(HATCHES)], "edgecolor": look.surface}


def _keys(sheet: Sheet, scene: Stacks, top: float) -> None:
    left = 0.2
    for name, text in scene.names.items():
        axes = sheet.axes(left, top + 0.03, 0.17, 0.12)
        axes.set_axis_off()
        axes.barh(0, 1, 1, linewidth=0.3, **_paint(name, scene, sheet.look))
        axes.set_xlim(0, 1)
        axes.set_ylim(-0.5, 0.5)
        sheet.text(left + 0.22, top + 0.09, text, KEY, va="center")
        left += 0.22 + measure(text, KEY)[0] + 0.18


def _bars(sheet: Sheet, scene: Stacks, top: float) -> None:
    look, rows = sheet.look, max(1, len(scene.stacks))
    axes = sheet.axes(NAMES, top, WIDTH - NAMES - AMOUNTS, ROW * rows)
    axes.set_axis_off()
    ends = [scene.common + sum(one for one in stack.parts.values() if one > 0) for stack in scene.stacks]
    end = min(max([scene.common, *ends]) * 1.02, LONGEST * scene.common)
    axes.set_xlim(0, end)
    axes.set_ylim(rows - 0.5, -0.5)
    first = next(iter(scene.names))
    for row, stack in enumerate(scene.stacks):
        left_out = -sum(one for one in stack.parts.values() if one < 0)
        at, said = max(0.0, scene.common - left_out), {name: size for name, size in stack.parts.items() if size > 0}
        if stack.amount:
            axes.barh(row, at, 0.6, linewidth=0.3, zorder=2, **_paint(first, scene, look))
        for name, size in said.items():
            axes.barh(row, size, 0.6, left=at, linewidth=0.3, zorder=2, **_paint(name, scene, look))
            at += size
        for name, size in stack.parts.items():
            if size < 0:
                paint = _paint(name, scene, look)
                axes.barh(row, -size, 0.42, left=at, fill=False, edgecolor=paint["color"], linestyle="--", zorder=3)
                at -= size
        middle = top + ROW * (row + 0.5)
        sheet.text(NAMES - 0.12, middle, fit(stack.label, NAME, NAMES - 0.3), NAME, ha="right", va="center")
        sheet.text(WIDTH - AMOUNTS + 0.1, middle, fit(stack.amount, AMOUNT, AMOUNTS - 0.2), AMOUNT, va="center")
    axes.plot([scene.common] * 2, [-0.5, rows - 0.5], color=look.text, linewidth=0.9, zorder=4)
