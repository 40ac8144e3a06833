"""Label placement beside points without overlap; geometry in pixels, no drawing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DIRECTIONS = (0, 180, -25, 25, 155, -155, -50, 50, 130, -130, -75, 75, 105, -105, 90, -90)
"""Angles tried around a point, in order of preference."""
DEAR = 125.0
"""Cost from which a place is confusing: far away, or over other markers."""


@dataclass(frozen=True)
class Box:
    """A rectangle turned by `angle` [degrees] about its centre."""

    x: float
    y: float
    width: float
    height: float
    angle: float = 0.0

    @cached_property
    def turned(self) -> Floats:
        """Unit vectors along and across the box, shape (2, 2)."""
        turn = math.radians(self.angle)
        return np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])

    @cached_property
    def corners(self) -> Floats:
        """Its four corners, shape (4, 2); read-only."""
        signs = np.array(((1, 1), (1, -1), (-1, -1), (-1, 1)))
        return np.asarray([self.x, self.y] + signs * [self.width / 2, self.height / 2] @ self.turned)

    def overlaps(self, other: Box) -> bool:
        """Whether the two share any area (separating axes)."""
        reach = math.hypot(self.width, self.height) + math.hypot(other.width, other.height)
        if 2 * math.hypot(self.x - other.x, self.y - other.y) > reach + 1.0:
            return False  # not even the circles round them meet
        for axis in (*self.turned, *other.turned):
            mine, theirs = self.corners @ axis, other.corners @ axis
            if mine.max() <= theirs.min() or theirs.max() <= mine.min():
                return False
        return True

    def inside(self, frame: Box) -> bool:
        """Whether it lies within an upright frame."""
        half = (frame.width / 2, frame.height / 2)
        return bool(np.all(np.abs(self.corners - [frame.x, frame.y]) <= half))

    def crosses(self, start: Floats, end: Floats, margin: float = 0.0) -> bool:
        """Whether a segment passes through it, or within `margin`, by clipping."""
        first, last = self.local(np.stack([start, end]))
        enter, leave = 0.0, 1.0
        for origin, run, half in zip(first, last - first, (self.width / 2, self.height / 2), strict=True):
            reach = half + margin
            if run == 0:
                if abs(origin) >= reach:
                    return False
                continue
            near, far = sorted(((-reach - origin) / run, (reach - origin) / run))
            enter, leave = max(enter, near), min(leave, far)
        return bool(enter < leave)

    def local(self, points: Floats) -> Floats:
        """Points of shape (n, 2) in coordinates along and across the box, from its centre."""
        return np.asarray((points - [self.x, self.y]) @ self.turned.T, dtype=np.float64)


@dataclass
class Board:
    """Occupied space: boxes, discs (x, y, radius) and weighted segments (1: never cross).

    clearance: between boxes. margin: between a box and a segment [pixels].
    """

    frame: Box
    boxes: list[Box] = field(default_factory=list)
    discs: Floats = field(default_factory=lambda: np.empty((0, 3)))
    segments: list[tuple[Floats, Floats, float]] = field(default_factory=list)
    clearance: float = 3.0
    margin: float = 6.0

    def free(self, box: Box) -> bool:
        """Whether the box lies in the frame and overlaps no other box."""
        grown = replace(box, width=box.width + self.clearance, height=box.height + self.clearance / 2)
        return box.inside(self.frame) and not any(grown.overlaps(other) for other in self.boxes)

    def covered_discs(self, box: Box) -> int:
        """Number of discs that the box touches."""
        outside = np.maximum(np.abs(box.local(self.discs[:, :2])) - [box.width / 2, box.height / 2], 0)
        return int(np.count_nonzero(np.hypot(*outside.T) < self.discs[:, 2]))

    def crossings(self, box: Box) -> float:
        """Total weight of the segments that touch the box."""
        return sum(weight for start, end, weight in self.segments if box.crosses(start, end, self.margin))

    def in_the_way(self, start: Floats, end: Floats) -> int:
        """Number of boxes and discs that a leader line would cross, except those it starts in."""
        along, relative = end - start, self.discs[:, :2] - start
        t = np.clip(relative @ along / max(float(along @ along), 1e-9), 0.0, 1.0)
        away = np.hypot(*(relative - t[:, None] * along).T)
        own = np.hypot(*relative.T) < self.discs[:, 2]
        discs = int(np.count_nonzero((away < self.discs[:, 2]) & ~own))
        return discs + sum(box.crosses(start, end) for box in self.boxes)


@dataclass(frozen=True)
class Placed:
    """Box and cost of a placed label, and the end of its leader line, if any."""

    box: Box
    cost: float
    leader: Floats | None


def beside(point: Floats, radius: float, size: tuple[float, float], unit: float) -> Iterator[tuple[Box, float]]:
    """Candidate boxes around a point with their cost; `unit`: one typographic point in pixels."""
    width, height = size
    for ring, gap in enumerate((2.5, 6.0, 11.0, 18.0, 26.0, 36.0, 50.0, 70.0, 95.0)):
        reach = radius + gap * unit
        for order, angle in enumerate(DIRECTIONS):
            turn = math.radians(angle)
            cos, sin = math.cos(turn), math.sin(turn)
            x = point[0] + reach * cos + np.sign(round(cos, 6)) * width / 2
            y = point[1] + reach * sin + (sin * height / 2)
            yield Box(float(x), float(y), width, height), ring * 7.0 + order * 0.6


def place(board: Board, point: Floats, radius: float, size: tuple[float, float], unit: float) -> Placed | None:
    """Cheapest free place of a label near its point, marked as taken; None above DEAR.

    Covering a marker costs most, then a line through the label, then a crossing leader line.
    """
    best: Placed | None = None
    for box, cost in beside(point, radius, size, unit):
        if (best is not None and cost >= best.cost) or not board.free(box):
            continue
        total = cost + 80.0 * board.covered_discs(box) + 70.0 * board.crossings(box)
        half = np.array([box.width / 2, box.height / 2])
        near = np.clip(point, [box.x, box.y] - half, [box.x, box.y] + half)
        leader = near if float(np.hypot(*(near - point))) > radius + 7.0 * unit else None
        if leader is not None:
            total += 40.0 * board.in_the_way(point, leader)
        if best is None or total < best.cost:
            best = Placed(box, total, leader)
    if best is None or best.cost > DEAR:
        return None
    board.boxes.append(best.box)
    if best.leader is not None:
        board.segments.append((point, best.leader, 1.0))
    return best


def first_free(board: Board, candidates: Sequence[Box]) -> Box | None:
    """Candidate over no box and the fewest discs and segments, marked as taken, or None."""
    free = [one for one in candidates if board.free(one)]
    if not free:
        return None
    chosen = min(free, key=lambda one: board.covered_discs(one) * 3 + board.crossings(one))
    board.boxes.append(chosen)
    return chosen
