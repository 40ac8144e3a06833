"""Bar figures: a waterfall down to the lower bound, and stacks on a shared base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.figure.plot import settings
from roofline.figure.sheet import WIDTH, Sheet, fit, measure, new_figure, wrap
from roofline.figure.style import IDLE, Theme, theme

NAMES, AMOUNTS = 3.1, 1.3
"""Width [inch] for names to the left of a waterfall's bars, and for amounts to the right."""
NAME, NOTE, AMOUNT, TITLE, SUBTITLE, TEXT = 8.8, 7.8, 8.6, 12.5, 9.0, 8.5
HATCHES = {"lower_bound": "", "work": "", "excess": "///", "kernels": "|||", "call": "...", "gaps": "xxx"}
"""Hatches, to tell kinds apart without colour."""
LONGEST = 5.0
"""Longest stack drawn, in multiples of the shared part."""


@dataclass(frozen=True)
class Step:
    """One bar from `start` to `end` (start <= end, one unit), with its name, cause and amount."""

    label: str
    note: str
    start: float
    end: float
    amount: str
    kind: str = ""


def _page(look: Theme, height: float, title: str, subtitle: Sequence[str], size: float) -> Sheet:
    sheet = new_figure(look, height)
    sheet.text(0.2, 0.14, fit(title, TITLE, WIDTH - 0.4, "bold"), TITLE, weight="bold")
    for row, line in enumerate(subtitle):
        sheet.text(0.2, 0.42 + 0.17 * row, line, size, color=look.muted)
    return sheet


def draw_steps(steps: Sequence[Step], title: str, subtitle: str) -> Any:
    """Draw a waterfall as a matplotlib Figure, 8 inches wide; the first step is the whole."""
    with settings():
        look, row = theme("light"), 0.38
        lines, rows = wrap(subtitle, SUBTITLE, WIDTH - 0.4), len(steps)
        top = 0.78 + 0.17 * max(0, len(lines) - 1)
        sheet = _page(look, top + row * rows + 0.14, title, lines, SUBTITLE)
        longest = max(one.end for one in steps) or 1.0
        axes = sheet.rows(NAMES, top, AMOUNTS, rows, row, longest)
        for at, one in enumerate(steps):
            colour = look.block(one.kind)
            hatch = (HATCHES | IDLE).get(one.kind, "")
            style = {"color": colour, "hatch": hatch, "edgecolor": look.surface, "linewidth": 0.4}
            axes.barh(at, one.end - one.start, 0.62, left=one.start, zorder=2, **style)
            if at + 1 < rows:
                below = steps[at + 1].end
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


def draw_stacks(
    rows: Sequence[tuple[str, Mapping[str, float], str]],
    shared: str,
    size: float,
    names: Sequence[str],
    title: str,
    subtitle: str,
) -> Any:
    """Draw stacked bars in one unit as a matplotlib Figure, 8 inches wide.

    rows: label, parts by name (dashed if missing), amount as text; no bar without an amount. All contain `shared`, of
    that `size`; names: of the other parts, in colour order.
    """
    with settings():
        look, row, top, labels, amounts = theme("light"), 0.3, 1.0, 2.5, 1.75
        sheet = _page(look, top + row * len(rows) + 0.16, title, [fit(subtitle, TEXT, WIDTH - 0.4)], TEXT)
        left = 0.2
        paint = {shared: look.reference, **dict(zip(names, look.series, strict=False))}
        for name, colour in paint.items():
            key = f"\N{BLACK SQUARE} {name}"
            sheet.text(left, 0.68, key, TEXT, color=colour)
            left += measure(key, TEXT)[0] + 0.22
        longest = max(size + sum(one for one in parts.values() if one > 0) for _, parts, _ in rows)
        axes = sheet.rows(labels, top, amounts, len(rows), row, min(longest * 1.02, LONGEST * size))
        for at, (label, parts, amount) in enumerate(rows):
            _stack(axes, at, size, {shared: 0.0, **parts} if amount else {}, paint)
            middle = top + row * (at + 0.5)
            sheet.text(labels - 0.12, middle, fit(label, TEXT, labels - 0.3), TEXT, ha="right", va="center")
            sheet.text(WIDTH - amounts + 0.1, middle, fit(amount or "-", TEXT, amounts - 0.2), TEXT, va="center")
        axes.plot([size] * 2, [-0.5, len(rows) - 0.5], color=look.text, linewidth=0.9, zorder=4)
        return sheet.figure


def _stack(axes: Any, row: int, size: float, parts: Mapping[str, float], paint: Mapping[str, str]) -> None:
    """Draw the shared part, then added parts, then missing ones, dashed."""
    less, at = -sum(one for one in parts.values() if one < 0), 0.0
    for place, (name, part) in enumerate(sorted(parts.items(), key=lambda one: one[1] < 0)):
        width = abs(part) if place else max(0.0, size - less)
        how = {"fill": False, "linestyle": "--"} if part < 0 else {"color": paint[name]}
        axes.barh(row, width, 0.6, left=at, edgecolor=paint[name] if part < 0 else "none", **how)
        at += width
