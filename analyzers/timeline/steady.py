"""Steady state of a program: steps by numbered ranges, else by evenly spaced kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzers.timeline.intervals import Times
from collectors.frame import distinct

REPEATS = 3
"""Fewest consecutive steps of a steady state; convention: fewer have no meaningful median."""
EVEN = 0.05
"""Largest relative difference in launches of equal steps, for a printed loss or occasional clipping."""
COLD = 1.5
"""Ratio to the median step from which an early step is warm-up; compiling and autotuning take several times as long."""
COVERS, LEAST, HALF = 0.9, 0.3, 0.5
"""Share of the best interval, and of all launches and kernel time, that steps must cover, HALF of it if the longest takes
more than SPREAD times the shortest; conventions that hold for the traces in tests/data/kineto.
"""
SPREAD = 2.0
_MARK = re.compile(
    r"(?:ProfilerStep#|(?:\w*[ _])?(?:step|iter|iteration)[ _#:]*)(\d+)(?: (?:to|of) \d+)?", re.IGNORECASE
)
"""Ranges that number the steps, at any depth: torch.profiler's and common hand-made names."""


@dataclass(frozen=True)
class Steady:
    """Repeating stretch: rows [first, end) in `steps`.

    `found`: "repeating", "range" (named by the user), "after" (a number of steps was passed over) or "all" where
    nothing repeats: then it is the whole record. `marks`: the row with which each step begins, and the one after the
    last; () unless it repeats. `marked`: by numbered ranges; else a step may be a layer, or an iteration of a solver.
    """

    first: int
    end: int
    steps: int
    found: str
    marks: tuple[int, ...] = ()
    marked: bool = False


def steady_of(ordered: pd.DataFrame, *, after: int = 0, at_most: int = 0) -> Steady:
    """Steady state of launches in order of start: numbered ranges, else repeating kernels.

    A step lies between two launches of an evenly spaced kernel; of several spacings, the shortest that explains about
    as much of the sequence as any. An extra launch in one step, as for a printed loss, is tolerated; copies start no
    step, as they come in chunks. after: steps to skip after warm-up; at_most: steps to take then, 0 for all.
    """
    starts, times = (ordered[name].to_numpy(dtype="float64") for name in ("start", "time"))
    kernels = (ordered["kind"] == "kernel").to_numpy() if "kind" in ordered else np.ones(len(ordered), dtype=bool)
    marks = _marked(ordered["range"]) if "range" in ordered else None
    if marks is not None:
        return replace(_chosen(marks, starts, after, at_most), marked=True)
    whole = Steady(0, len(ordered), 1, "all")
    runs = [run for where in _places(ordered["kernel"], kernels) if (run := _longest_run(where)) is not None]
    most = max((int(run[-1] - run[0]) for run in runs), default=0)
    long = [run for run in runs if run[-1] - run[0] >= COVERS * most]
    marks = min(long, key=lambda run: (run[-1] - run[0]) / len(run[1:]), default=None)
    if marks is None or marks[-1] - marks[0] < LEAST * len(ordered):
        return whole
    found = _chosen(marks, starts, after, at_most)
    spent = np.where(kernels, times, 0.0)
    # What asked for steps to be passed over asked for less of the program.
    asked = found.found != "repeating" or at_most
    lengths = np.diff(starts[np.minimum(found.marks, len(starts) - 1)])
    least = HALF if lengths.max() > SPREAD * lengths.min() else LEAST
    return found if asked or spent[found.first : found.end].sum() >= least * spent.sum() else whole


def _chosen(marks: NDArray[np.int64], starts: Times, after: int, at_most: int) -> Steady:
    """Steps between marks, without warm-up and skipped ones."""
    steps = len(marks) - 1
    passed = min(after + _cold(starts, marks), steps - 1)
    marks = marks[passed : passed + (at_most or steps) + 1]
    first, end, steps = int(marks[0]), int(marks[-1]), len(marks) - 1
    return Steady(first, end, steps, "after" if after else "repeating", tuple(marks.tolist()))


def _cold(starts: Times, marks: NDArray[np.int64]) -> int:
    """Number of warm-up steps: 1.5 times the median or longer."""
    lengths = np.diff(starts[np.minimum(marks, len(starts) - 1)])
    warm = lengths <= COLD * np.median(lengths)
    return int(np.argmax(warm)) if warm.any() else 0


def _marked(paths: pd.Series[str]) -> NDArray[np.int64] | None:
    """First row of each numbered step, and the row after the last; None without such ranges."""
    numbers = {path: _number(str(path)) for path in distinct(paths)}
    if max(numbers.values(), default=-1) < 0:
        return None
    code = paths.map(numbers).to_numpy(dtype=np.int64)
    at = np.flatnonzero(code >= 0)
    fresh = np.flatnonzero(np.diff(code[at], prepend=-1))
    if len(at) < LEAST * len(paths) or (np.diff(code[at][fresh]) < 0).any():
        return None
    marks = np.append(at[fresh], at[-1] + 1)
    sizes = np.diff(marks)
    # The last range of a loop that ends inside it is no whole step.
    return marks[:-1] if len(sizes) > REPEATS and sizes[-1] < HALF * np.median(sizes) else marks


def _number(path: str) -> int:
    return next((int(found[1]) for part in path.split("/") if (found := _MARK.fullmatch(part))), -1)


def _places(names: pd.Series[str], kernels: NDArray[np.bool_]) -> Iterator[NDArray[np.int64]]:
    """Name -> its positions, for names that occur more than REPEATS times."""
    # Of a million launches a copy of the texts is a third of a gigabyte, their places in memory ten megabytes.
    codes = np.where(kernels, pd.factorize(names)[0], -1)
    # Small numbers are sorted by their digits, five times as fast.
    order = np.argsort(codes.astype(np.int16) if len(codes) and codes.max() < 1 << 15 else codes, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        if len(part) > REPEATS and codes[part[0]] >= 0:
            yield part


def _longest_run(where: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Longest run of positions at distances near their median; None if short."""
    steps = np.diff(where)
    middle = float(np.median(steps))
    even = np.abs(steps - middle) <= max(EVEN * middle, 1)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], even, [False])).astype(np.int8)))
    if not len(edges):
        return None
    begins, ends = edges[::2], edges[1::2]
    lengths = ends - begins
    best = int(len(lengths) - 1 - np.argmax(lengths[::-1]))  # of equal ones the last: by then all is warm
    if ends[best] - begins[best] < REPEATS:
        return None
    return where[begins[best] : ends[best] + 1]
