"""NVTX ranges of each launch: by the moment of its API call on the thread that made it.

A range is half open: start <= t < end, so a call on the border of two ranges belongs to the later one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Range:
    """An NVTX range of one thread: ns on the tool's timeline; `end` None if never closed."""

    start: int
    end: int | None
    name: str
    thread: int


def by_thread(ranges: Sequence[Range]) -> dict[int, list[Range]]:
    """The ranges of each thread by their begin, the outer of two that open together first."""
    threads: dict[int, list[Range]] = {}
    for one in ranges:
        threads.setdefault(one.thread, []).append(one)
    for part in threads.values():
        part.sort(key=lambda one: (one.start, -_end(one)))
    return threads


def paths(threads: Mapping[int, Sequence[Range]], thread: Any, time: Any) -> list[str]:
    """The path of open ranges, outer/inner, for each launch; "" outside all ranges.

    threads: of by_thread. thread, time: int64 arrays, the calling thread and the moment of the call [ns].
    """
    result = [""] * len(time)
    order = np.lexsort((time, thread))
    bounds = np.flatnonzero(np.diff(thread[order])) + 1
    for part in np.split(order, bounds):
        if len(part) and int(thread[part[0]]) in threads:
            found = sweep(threads[int(thread[part[0]])], time[part].tolist())
            for at, path in zip(part.tolist(), found, strict=True):
                result[at] = path
    return result


def sweep(ranges: Sequence[Range], times: Sequence[int]) -> list[str]:
    """The path at each of the ascending `times`; `ranges` sorted as by_thread does."""
    result: list[str] = []
    opened: list[Range] = []
    upcoming, first_end, path = 0, float("inf"), ""
    for time in times:
        changed = first_end <= time
        if changed:
            opened = [one for one in opened if _end(one) > time]
        while upcoming < len(ranges) and ranges[upcoming].start <= time:
            if _end(ranges[upcoming]) > time:
                opened.append(ranges[upcoming])
                changed = True
            upcoming += 1
        if changed:
            path = "/".join(one.name for one in opened)
            first_end = min((_end(one) for one in opened), default=float("inf"))
        result.append(path)
    return result


def adopted(threads: Mapping[int, Sequence[Range]], processes: Mapping[int, int], thread: Any, time: Any) -> list[str]:
    """Paths for launches of threads without ranges, of another thread of the process.

    "" where no thread or more than one has a range open. processes: thread -> process.
    """
    found: list[set[str]] = [set() for _ in range(len(time))]
    owners = np.array([processes[int(one)] for one in thread], dtype=np.int64)
    for other in threads:
        mine = np.flatnonzero(owners == processes.get(other, -1))
        order = mine[np.argsort(time[mine], kind="stable")]
        for at, path in zip(order.tolist(), sweep(threads[other], time[order].tolist()), strict=True):
            if path:
                found[at].add(path)
    return [next(iter(one)) if len(one) == 1 else "" for one in found]


def _end(one: Range) -> float:
    return float("inf") if one.end is None else one.end
