"""Readings of one thing as stacked bars: what all share, what each adds to it, and dashed what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.figure.plot import settings
from roofline.figure.sheet import WIDTH, Sheet, fit, measure, new_figure
from roofline.figure.style import theme

ROW, HEAD, FOOT, NAMES, AMOUNTS = 0.3, 1.0, 0.16, 2.5, 1.75
TEXT, TITLE = 8.5, 12.5
LONGEST = 5.0
"""Times the shared part that a bar is drawn long."""


@dataclass(frozen=True)
class Stacks:
    """`rows`: label, parts by name, amount in words; no amount, no bar. `shared`: name and size of what all share, in the unit of the parts."""

    rows: Sequence[tuple[str, Mapping[str, float], str]]
    shared: tuple[str, float]
    names: Sequence[str]
    title: str
    subtitle: str


def draw_stacks(scene: Stacks) -> Any:
    """The matplotlib Figure, 8 inches wide."""
    with settings():
        look = theme("light")
        sheet = new_figure(look, HEAD + ROW * len(scene.rows) + FOOT)
        sheet.text(0.2, 0.14, fit(scene.title, TITLE, WIDTH - 0.4, "bold"), TITLE, weight="bold")
        sheet.text(0.2, 0.42, fit(scene.subtitle, TEXT, WIDTH - 0.4), TEXT, color=look.muted)
        paint, left = {scene.shared[0]: look.reference, **dict(zip(scene.names, look.series, strict=False))}, 0.2
        for name, colour in paint.items():
            sheet.text(left, 0.68, f"\N{BLACK SQUARE} {name}", TEXT, color=colour)
            left += measure(f"\N{BLACK SQUARE} {name}", TEXT)[0] + 0.22
        _bars(sheet, scene, paint)
        return sheet.figure


def _bars(sheet: Sheet, scene: Stacks, paint: Mapping[str, str]) -> None:
    shared, size = scene.shared
    axes = sheet.axes(NAMES, HEAD, WIDTH - NAMES - AMOUNTS, ROW * len(scene.rows))
    axes.set_axis_off()
    longest = max(size + sum(one for one in parts.values() if one > 0) for _, parts, _ in scene.rows)
    axes.set_xlim(0, min(longest * 1.02, LONGEST * size))
    axes.set_ylim(len(scene.rows) - 0.5, -0.5)
    for row, (label, parts, amount) in enumerate(scene.rows):
        less = -sum(one for one in parts.values() if one < 0)
        at = 0.0
        for name, part in [(shared, max(0.0, size - less)), *sorted(parts.items(), key=lambda one: one[1] < 0)]:
            how = {"fill": False, "linestyle": "--"} if part < 0 else {"color": paint[name]}
            if amount:
                axes.barh(row, abs(part), 0.6, left=at, edgecolor=paint[name] if part < 0 else "none", **how)
            at += abs(part)
        middle = HEAD + ROW * (row + 0.5)
        sheet.text(NAMES - 0.12, middle, fit(label, TEXT, NAMES - 0.3), TEXT, ha="right", va="center")
        sheet.text(WIDTH - AMOUNTS + 0.1, middle, fit(amount or "-", TEXT, AMOUNTS - 0.2), TEXT, va="center")
    axes.plot([size] * 2, [-0.5, len(scene.rows) - 0.5], color=sheet.look.text, linewidth=0.9, zorder=4)
