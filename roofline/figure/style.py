"""Colours, markers and sizes of the figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from roofline.errors import RooflineError

DPI = 200
"""Twice the pixels of an 8 inch figure shown 800 pixels wide, for dense screens."""

OUTLINES = ("o", "D", "s", "^", "v", "P", "H", "*")
"""Markers by outline number, see `shape`."""
FILLED = {"dram": 1.0, "l2": 0.0, "l1": 0.4}
"""Fill of a marker by the memory level of its bytes."""

REFERENCE = -1
"""Colour index of the reference: grey."""
SHAPES = (1, 2, 3, 4, 5, 6, 7, 7, 4, 6, 7, 6, 3, 5, 3, 1)
"""Outlines by colour index; equal outlines have very different colours."""
BANDS = (0, 0, 1, 2, 1, 2, 1)
"""Stripes by colour index, for pieces of a timeline, which have no outline. Grey has none."""

IDLE = {"away": "", "host": "xx", "waiting": "||", "allocating": "oo", "loading": "--", "queued": "..", "unknown": "+"}
"""Patterns of causes of idle time in a waterfall."""


@dataclass(frozen=True)
class Theme:
    """Colours safe for colour-blind readers; `kinds`: of each kind of waterfall block."""

    surface: str
    text: str
    muted: str
    grid: str
    roof: str
    shade: str
    warning: str
    reference: str
    series: tuple[str, ...]
    kinds: Mapping[str, str]

    def block(self, kind: str) -> str:
        """Colour of a block; causes of idle time share one and differ by pattern."""
        return self.kinds.get("gaps" if kind in IDLE else kind, self.text)


THEMES = {
    "light": Theme(
        surface="#ffffff",
        text="#1f2328",
        muted="#59636e",
        grid="#e6e9ed",
        roof="#30363d",
        shade="#f4f7fb",
        warning="#cf222e",
        reference="#8a929c",
        series=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00", "#56b4e9", "#7a5ab8", "#8a6d3b"),
        kinds={
            "lower_bound": "#8a929c",
            "work": "#3b7dd8",
            "excess": "#c2410c",
            "kernels": "#7a5ab8",
            "call": "#7a5ab8",
            "gaps": "#a16207",
        },
    ),
    "dark": Theme(
        surface="#0d1117",
        text="#f0f6fc",
        muted="#9198a1",
        grid="#21262d",
        roof="#c9d1d9",
        shade="#131a24",
        warning="#ff7b72",
        reference="#8b949e",
        series=("#56b4e9", "#f28e2b", "#2ec4a0", "#e199c4", "#f0c040", "#9ad1f5", "#b39ddb", "#d8b26e"),
        kinds={
            "lower_bound": "#8b949e",
            "work": "#58a6ff",
            "excess": "#f28e2b",
            "kernels": "#b39ddb",
            "call": "#b39ddb",
            "gaps": "#e3b341",
        },
    ),
}


def theme(name: str) -> Theme:
    """Theme by name; raises RooflineError with the known ones."""
    if name not in THEMES:
        raise RooflineError(f"unknown theme {name!r}", fix=f"use one of: {', '.join(THEMES)}")
    return THEMES[name]


def places(impls: Iterable[str]) -> dict[str, int]:
    """Colour index of every implementation; REFERENCE if there are others."""
    names = list(dict.fromkeys(impls))
    found: dict[str, int] = {}
    for name in names:
        grey = name == "reference" and len(names) > 1
        found[name] = REFERENCE if grey else sum(place != REFERENCE for place in found.values())
    return found


def colours(impls: Iterable[str], look: Theme) -> dict[str, str]:
    """Colour of every implementation; the reference is grey if there are others."""
    shades = {name: look.series[place % len(look.series)] for name, place in places(impls).items() if place >= 0}
    return {name: shades.get(name, look.reference) for name in places(impls)}


def markers(impls: Iterable[str]) -> dict[str, str]:
    """Marker of every implementation, to distinguish them without colour."""
    return {name: OUTLINES[shape(place)] for name, place in places(impls).items()}


def shape(place: int) -> int:
    """Outline of a mark: 0, a circle, is the reference's."""
    return 0 if place == REFERENCE else SHAPES[place % len(SHAPES)]


def area(share: float) -> float:
    """Marker area [pt^2] for a share of the time; medium if unknown."""
    if not math.isfinite(share):
        return 46.0
    return 26.0 + 330.0 * min(max(share, 0.0), 1.0)


def radius(marker_area: float) -> float:
    """Radius [pt] of a round marker of this area."""
    return math.sqrt(marker_area) / 2.0
