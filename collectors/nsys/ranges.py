"""NVTX ranges of each launch, by time and thread of its API call.

A range is half open: start <= t < end, so a call on the border of two ranges belongs to the later one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np


class Range(msgspec.Struct, frozen=True, gc=False):
    """An NVTX range of one thread: ns on the tool's timeline; `end` None if never closed."""

    start: int
    end: int | None
    name: str
    thread: int


def by_thread(ranges: Sequence[Range]) -> dict[int, list[Range]]:
    """Ranges of each thread by start; of two that start together the outer one first."""
    threads: dict[int, list[Range]] = {}
    for one in ranges:
        threads.setdefault(one.thread, []).append(one)
    for part in threads.values():
        part.sort(key=lambda one: (one.start, -_end(one)))
    return threads


def paths(threads: Mapping[int, Sequence[Range]], thread: Any, time: Any) -> list[str]:
    """Path of open ranges, outer/inner, for each launch; "" outside all ranges.

    threads: of by_thread. thread, time: int64 arrays, the calling thread and the time of the call [ns].
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
    """Path at each of the ascending `times`; `ranges` sorted as by_thread does."""
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


def attributed(
    ranges: Sequence[Range], thread: Any, time: Any, process: Callable[[int], int] = lambda _: 0
) -> tuple[list[str], list[int]]:
    """(range path of each launch, indices of launches under another thread's range).

    A launch of a thread without ranges gets the only open range in its process. thread, time: as in paths, -1 for an
    unknown call; process: of a thread.
    """
    threads = by_thread(ranges)
    where = paths(threads, thread, time)
    foreign = np.flatnonzero((time >= 0) & ~np.isin(thread, list(threads)))
    owners = np.array([process(one) for one in thread[foreign].tolist()], dtype=np.int64)
    found: dict[int, set[str]] = {}
    for other in threads:
        mine = foreign[owners == process(other)]
        order = mine[np.argsort(time[mine], kind="stable")]
        for at, path in zip(order.tolist(), sweep(threads[other], time[order].tolist()), strict=True):
            if path:
                found.setdefault(at, set()).add(path)
    only = {at: next(iter(one)) for at, one in found.items() if len(one) == 1}
    for at, path in only.items():
        where[at] = path
    return where, list(only)


def _end(one: Range) -> float:
    return float("inf") if one.end is None else one.end
