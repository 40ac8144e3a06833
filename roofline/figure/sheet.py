"""Page layout of a figure: inches from its top left corner, measured text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from roofline.figure.style import DPI, Theme
from roofline.wording import cut, families

_CHINESE, _STOPS = "[\u3400-\u9fff]", "[，。；：、）]"
WIDTH = 8.0
"""Inches; shown 800 pixels wide, a typographic point is 1.4 pixels."""


@lru_cache(maxsize=4096)
def measure(text: str, size: float, weight: str = "normal") -> tuple[float, float]:
    """Width and height [inch] of a line of text at a size [pt]."""
    from matplotlib.text import Text

    figure, renderer = _scratch()
    line = Text(0, 0, text, fontsize=size, fontweight=weight, fontfamily=families(), parse_math=False)
    line.set_figure(figure)
    extent = line.get_window_extent(renderer)
    return float(extent.width) / DPI, float(extent.height) / DPI


@lru_cache(maxsize=1)
def _scratch() -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1, 1), dpi=DPI)
    return figure, FigureCanvasAgg(figure).get_renderer()


def wrap(text: str, size: float, width: float, weight: str = "normal") -> list[str]:
    """Text in lines of at most `width` [inch], broken at spaces and Chinese characters.

    No line begins with a stop; a longer word is cut.
    """
    lines: list[str] = []
    line = ""
    for space, word in re.findall(rf"(\s*)({_CHINESE}{_STOPS}*|[^\s{_CHINESE[1:-1]}]+{_STOPS}*)", text):
        longer = f"{line}{' ' if space else ''}{word}".strip()
        if line and measure(longer, size, weight)[0] > width:
            lines.append(line)
            longer = word
        line = fit(longer, size, width, weight)
    return [*lines, line] if line else lines


def fit(text: str, size: float, width: float, weight: str = "normal") -> str:
    """The text, shortened in the middle with an ellipsis to `width` [inch]."""
    if measure(text, size, weight)[0] <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = math.ceil((low + high) / 2)
        if measure(cut(text, middle), size, weight)[0] <= width:
            low = middle
        else:
            high = middle - 1
    return cut(text, max(low, 1))


@dataclass
class Sheet:
    """A figure of a fixed height [inch]; positions in inches from the top left."""

    figure: Any
    look: Theme
    height: float
    families: list[str] = field(default_factory=families)

    def axes(self, left: float, top: float, width: float, height: float) -> Any:
        """Bare axes in a rectangle, in the theme's colours."""
        box = (left / WIDTH, 1 - (top + height) / self.height, width / WIDTH, height / self.height)
        axes = self.figure.add_axes(box, facecolor=self.look.surface)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(self.look.muted)
            axes.spines[side].set_linewidth(0.8)
        axes.tick_params(which="both", length=0, colors=self.look.muted, labelsize=8, pad=4)
        axes.set_axisbelow(True)
        return axes

    def rows(self, left: float, top: float, right: float, rows: int, row: float, longest: float) -> Any:
        """Bare axes with one bar per row, from the left to the right margin [inch]."""
        axes = self.axes(left, top, WIDTH - left - right, row * rows)
        axes.set_axis_off()
        axes.set_xlim(0, longest)
        axes.set_ylim(rows - 0.5, -0.5)
        return axes

    def mark(self, xs: Sequence[float], y: float, **style: Any) -> None:
        """A marker, or a line through all `xs`; `style` as matplotlib's Line2D."""
        from matplotlib.lines import Line2D

        self.figure.add_artist(Line2D([x / WIDTH for x in xs], [1 - y / self.height] * len(xs), **style))

    def text(self, x: float, y: float, text: str, size: float, **style: Any) -> Any:
        """Write one line with its box at (x, y); `style` as matplotlib's Text."""
        style.setdefault("color", self.look.text)
        style.setdefault("va", "top")
        return self.figure.text(
            x / WIDTH, 1 - y / self.height, text, fontsize=size, fontfamily=self.families, parse_math=False, **style
        )


@dataclass(frozen=True)
class Block:
    """Part of a page: its height [inch], and its drawing at a distance from the top [inch]."""

    height: float
    draw: Callable[[Sheet, float], object]


def page(look: Theme, blocks: Sequence[Block]) -> Any:
    """Stack blocks to a figure."""
    sheet, top = new_figure(look, math.fsum(block.height for block in blocks)), 0.0
    for block in blocks:
        block.draw(sheet, top)
        top += block.height
    return sheet.figure


def new_figure(look: Theme, height: float) -> Sheet:
    """An empty page of this height [inch]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor=look.surface)
    FigureCanvasAgg(figure)
    return Sheet(figure, look, height)
