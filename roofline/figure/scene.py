"""Content of a roofline figure as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from roofline.ceilings import BANDWIDTH, Ceiling, Roofline

NAN = math.nan

ABOVE = 1.02
"""Ratio to its ceiling from which a point is flagged: measured ceilings repeat within 2 %."""


@dataclass(frozen=True)
class Point:
    """One kernel at one memory level: intensity [FLOP/B], FLOP/s, B/s, time [s], share of time.

    `compute` and `level`: its ceilings. Zero FLOP/s (a copy) goes to the bandwidth strip. `attained`: achieved over
    attainable (fraction) if known better than from these two, as for work on several pipes.
    """

    label: str
    intensity: float
    flops_per_s: float
    bytes_per_s: float = NAN
    compute: str = "fp32"
    level: str = "dram"
    impl: str = ""
    time: float = NAN
    share: float = NAN
    attained: float = NAN

    @property
    def placed(self) -> bool:
        """Whether it has a place on log-log axes."""
        return _positive(self.intensity) and _positive(self.flops_per_s)

    @property
    def copies(self) -> bool:
        """Whether it moves bytes without FLOP."""
        return self.flops_per_s == 0 and _positive(self.bytes_per_s)


@dataclass(frozen=True)
class Arrow:
    """An arrow between two points of one operation; `label` follows that operation's name."""

    start: Point
    end: Point
    label: str = ""


@dataclass(frozen=True)
class LowerBoundPoint:
    """The lower bound of an algorithm at its compulsory intensity [FLOP/B]."""

    intensity: float
    compute: str = "fp32"
    level: str = "dram"


@dataclass(frozen=True)
class Scene:
    """Content of one figure.

    `order`: implementations in colour order; others follow. `winner`: labelled first and in front, "" for none.
    `steps`: whether the points are ordered steps. `levels`: memory ceilings, by default those of the points; `caption`:
    lines below; `words`: its sentences in another language, by the English ones.
    """

    roofline: Roofline
    points: tuple[Point, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    lower_bounds: tuple[LowerBoundPoint, ...] = ()
    title: str = ""
    subtitle: str = ""
    caption: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    theme: str = "light"
    winner: str = ""
    steps: bool = False
    words: Mapping[str, str] = field(default_factory=dict, hash=False)


def impls(scene: Scene) -> tuple[str, ...]:
    """All implementations, in colour order; some may have no point."""
    return tuple(dict.fromkeys([*scene.order, *(p.impl for p in scene.points)]))


def compute_names(scene: Scene) -> tuple[str, ...]:
    """Compute ceilings to draw: those in use, or every known one if none is."""
    used = [p.compute for p in scene.points if p.placed] + [f.compute for f in scene.lower_bounds]
    if not used and not any(p.copies for p in scene.points):
        used = [c.name for c in scene.roofline.ceilings if c.kind == "compute"]
    return tuple(dict.fromkeys(used))


def level_names(scene: Scene) -> tuple[str, ...]:
    """Memory ceilings to draw, DRAM first."""
    used = set(scene.levels) or {p.level for p in scene.points} | {f.level for f in scene.lower_bounds} or {"dram"}
    order = {name: index for index, name in enumerate(BANDWIDTH)}
    return tuple(sorted(used, key=lambda name: (order.get(name, len(order)), name)))


def ceilings_of(scene: Scene) -> list[Ceiling]:
    """Known ceilings to draw."""
    found = (scene.roofline.get(name) for name in (*compute_names(scene), *level_names(scene)))
    return [one for one in found if one is not None]


def share_of_roof(point: Point, roofline: Roofline) -> float:
    """Achieved over attainable at the point's ceilings (fraction); NaN unknown."""
    if not math.isnan(point.attained):
        return point.attained
    if point.copies:
        return point.bytes_per_s / roofline.peak(point.level)
    return point.flops_per_s / roofline.attainable(point.intensity, point.compute, point.level)


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0
