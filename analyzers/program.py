"""Where the wall time of a whole program went, in its steady state, before any kernel is looked at.

A moment of the window belongs to exactly one of: GPU computing, communicating alone, copying alone, or idle; idle is
told apart by what the host did meanwhile. The parts add up to the window.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Times = NDArray[np.float64]

COMMUNICATION = re.compile(r"nccl\w*Kernel|ncclDevKernel|\bnccl", re.IGNORECASE)
BLOCKING = re.compile(r"cu(?:da)?(?:Stream|Device|Event|Ctx)Synchronize|cu(?:da)?Memcpy(?!\w*Async)")
ALLOCATING = re.compile(r"cu(?:da)?(?:Malloc|Free|MemAlloc|MemFree|HostAlloc|MemMap|MemCreate)(?!Async)")
LOADING = re.compile(r"cu(?:da)?(?:Module|Library)Load|nvrtcCompile")
PAGEABLE = "Pageable"
_WHEN = ["start", "time"]
SHORT = 5e-6
"""A kernel shorter than this costs the host about as long to launch as the GPU to run."""
REPEATS = 3
"""Steps that have to follow each other to be a steady state."""
EVEN = 0.05
"""Relative difference in launches between steps that are called equal."""
COLD = 1.5
"""Times the median step from which one at the beginning is warming up."""
COVERS, LEAST = 0.9, 0.3
"""Share of the best stretch, and of all launches, that steps have to explain."""


@dataclass(frozen=True)
class Steady:
    """The stretch that repeats: rows [first, end) of the launches, `steps` of `period` launches each.

    `found`: "repeating", "range" (named by the user), "after" (a number of steps was passed over) or "all" where
    nothing repeats: then it is the whole record.
    """

    first: int
    end: int
    period: int
    steps: int
    found: str


@dataclass(frozen=True)
class Budget:
    """Seconds of a window by what went on; `computing + communicating + copying + idle = window`.

    `communicating`, `copying`: nothing else ran meanwhile; `hidden`: communication beside computing. `idle` =
    `host` (the host had not launched yet, in its own code) + `waiting` (it had just waited for the GPU) +
    `allocating` + `loading` (it had just loaded code, as after compiling) + `queued` (launched in time: dependencies,
    launch latency); all of it `unknown` without the host's calls. `loads`: calls that loaded code; `tiny` [s] of
    computing: in kernels shorter than SHORT, nothing longer beside them. `blocking`: calls that waited; `pageable` [s] of copies from pageable memory and their `pageable_bytes`;
    `short`: share of launches below SHORT. `before`, `after` [s]: of the process outside the window, NaN if not known.
    """

    window: float
    computing: float
    communicating: float
    copying: float
    host: float
    waiting: float
    allocating: float
    loading: float
    queued: float
    unknown: float
    hidden: float
    tiny: float
    launches: int
    gaps: int
    blocking: int
    loads: int
    pageable: float
    pageable_bytes: float
    short: float
    before: float
    after: float
    steady: Steady

    @property
    def idle(self) -> float:
        return self.host + self.waiting + self.allocating + self.loading + self.queued + self.unknown

    @property
    def step(self) -> float:
        """Seconds of one step; the window where nothing repeats."""
        return self.window / max(self.steady.steps, 1)


def steady_state(names: Sequence[str], starts: Times | None = None, *, after: int = 0, at_most: int = 0) -> Steady:
    """The repeating stretch of a sequence of launches, and when each began [s], so that cold steps are passed over.
    after: steps to pass over beyond those; at_most: then so many, 0 for all.

    A step is what lies between two launches of a kernel that comes at a steady distance; of several such distances
    the shortest counts that explains about as much of the sequence as any. A launch more in one step, as of a printed
    loss, does not break it.
    """
    count = len(names)
    runs = [run for where in _places(names) if (run := _longest_run(where)) is not None]
    if not runs:
        return Steady(0, count, count, 1, "all")
    most = max(end - first for first, end, _ in runs)
    first, end, steps = min(
        (run for run in runs if run[1] - run[0] >= COVERS * most), key=lambda run: (run[1] - run[0]) / run[2]
    )
    if end - first < LEAST * count:
        return Steady(0, count, count, 1, "all")
    period = round((end - first) / steps)
    passed = min(after + _cold(starts, first, end, steps), steps - 1)
    left = min(at_most or steps, steps - passed)
    begin = first + passed * period
    end = end if left == steps - passed else begin + left * period
    return Steady(begin, end, period, left, "after" if after else "repeating")


def _cold(starts: Times | None, first: int, end: int, steps: int) -> int:
    """Steps at the beginning that took half as long again as the median one: compiling, loading, choosing kernels."""
    if starts is None:
        return 0
    marks = starts[np.linspace(first, end, steps + 1).round().astype(int).clip(max=len(starts) - 1)]
    lengths = np.diff(marks)
    warm = lengths <= COLD * np.median(lengths)
    return int(np.argmax(warm)) if warm.any() else 0


def _places(names: Sequence[str]) -> Iterator[NDArray[np.int64]]:
    """Where each name stands, of names that come more than REPEATS times."""
    codes = pd.factorize(pd.Series(list(names), dtype="str"))[0]
    order = np.argsort(codes, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        if len(part) > REPEATS:
            yield part


def _longest_run(where: NDArray[np.int64]) -> tuple[int, int, int] | None:
    """(first, end, steps) of the longest stretch in which the distances keep near their median; None if short."""
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
    return int(where[begins[best]]), int(where[ends[best]]), int(ends[best] - begins[best])


def budget(
    frame: pd.DataFrame,
    *,
    host: pd.DataFrame | None = None,
    wall: float = math.nan,
    lead: float = math.nan,
    after: int = 0,
    at_most: int = 0,
    within: str = "",
    passages: int = 1,
) -> Budget:
    """The budget of one process and device. frame: launches with start and time [s] of one device in order of start.

    host: the CUDA calls (collectors.kineto.host_frame). wall [s]: of the process; lead [s]: of that before the first
    launch. after: steps to pass over; at_most: then so many; within: from the first
    to the last launch of ranges of this name, or all where it is not in the paths, in so many `passages`.
    """
    # Of a million launches every column that is not asked for is ten megabytes, several times over.
    asked = [name for name in ("range", "kernel", "kind", "start", "time", "bytes") if name in frame]
    ordered = frame[asked].sort_values("start", kind="stable")
    if within:
        inside = np.flatnonzero([within.replace("/", "|") in path.split("/") for path in ordered["range"]])
        first, behind = (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, len(ordered))
        steady = Steady(first, behind, (behind - first) // passages, passages, "range")
    else:
        steady = steady_state(
            ordered["kernel"].tolist(), ordered["start"].to_numpy(dtype="float64"), after=after, at_most=at_most
        )
    part = ordered.iloc[steady.first : steady.end]
    begin = float(part["start"].iloc[0])
    # A step ends where the next one begins; the last one with its last piece of work.
    follows = ordered["start"].iloc[steady.end] if steady.end < len(ordered) and steady.found != "range" else math.inf
    end = min(float((part["start"] + part["time"]).max()), float(follows))
    spoken = _matching(part["kernel"], COMMUNICATION)
    copies = part["kind"].isin(("memcpy", "memset"))
    compute = _union(part[_WHEN][~spoken & ~copies], begin, end)
    longer = _union(part[_WHEN][~spoken & ~copies & (part["time"] >= SHORT)], begin, end)
    with_talk = _union(part[_WHEN][~copies], begin, end)
    everything = _union(part, begin, end)
    computing, talking = _length(compute), _length(_union(part[_WHEN][spoken], begin, end))
    gaps = _gaps(everything, begin, end)
    idle = _idle(gaps, part, host)
    pageable = part[_matching(part["kernel"], re.compile(PAGEABLE))]
    total = float((ordered["start"] + ordered["time"]).max())
    return Budget(
        window=end - begin,
        computing=computing,
        communicating=_length(with_talk) - computing,
        copying=_length(everything) - _length(with_talk),
        **idle,
        hidden=talking - (_length(with_talk) - computing),
        tiny=computing - _length(longer),
        launches=len(part),
        gaps=len(gaps),
        blocking=_calls(host, BLOCKING, begin, end),
        loads=_calls(host, LOADING, begin, end),
        pageable=float(pageable["time"].sum()),
        pageable_bytes=float(pageable["bytes"].sum(min_count=1)) if "bytes" in pageable else math.nan,
        short=float((part["time"] < SHORT).mean()),
        before=lead + begin - float(ordered["start"].iloc[0]),
        after=wall - lead - (end - float(ordered["start"].iloc[0])) if wall == wall and lead == lead else total - end,
        steady=steady,
    )


def of_whole(kernels: pd.DataFrame, frame: pd.DataFrame, wall: float) -> pd.DataFrame:
    """Kernels of which only some launches were counted, with their `share` of the GPU time of the whole program and their
    `wall_share` of `wall` [s], both by the timeline `frame`; NaN for one that it does not name.
    """
    # A timeline names few kernels in many launches.
    spelt = {name: _one_spelling(name) for name in frame["kernel"].unique()}
    spent = frame["time"].groupby(frame["kernel"].map(spelt)).sum()
    seconds = kernels["kernel"].map(_one_spelling).map(spent).astype("float64")
    total = float(frame["time"].sum()) or math.nan
    shared: pd.DataFrame = kernels.assign(share=seconds / total, wall_share=seconds / (wall or math.nan))
    return shared


def _one_spelling(kernel: str) -> str:
    """ncu and CUPTI demangle alike but for spaces and what has no name."""
    return kernel.replace("(anonymous namespace)", "<unnamed>").replace(" ", "")


def _union(part: pd.DataFrame, begin: float, end: float) -> Times:
    """Merged stretches (begin, end) [s] of launches, cut to the window; shape (n, 2)."""
    start = np.clip(part["start"].to_numpy(dtype="float64"), begin, end)
    stop = np.clip((part["start"] + part["time"]).to_numpy(dtype="float64"), begin, end)
    if not len(start):
        return np.zeros((0, 2))
    order = np.argsort(start, kind="stable")
    start, stop = start[order], np.maximum.accumulate(stop[order])
    fresh = np.concatenate(([True], start[1:] > stop[:-1]))
    ends = np.concatenate((stop[:-1][fresh[1:]], stop[-1:]))
    return np.column_stack((start[fresh], ends))


def _length(stretches: Times) -> float:
    return float((stretches[:, 1] - stretches[:, 0]).sum())


def _gaps(busy: Times, begin: float, end: float) -> Times:
    """Idle stretches between busy ones; shape (n, 2)."""
    edges = np.concatenate(([begin], busy.ravel(), [end])).reshape(-1, 2)
    return edges[edges[:, 1] > edges[:, 0]]


def _idle(gaps: Times, part: pd.DataFrame, host: pd.DataFrame | None) -> dict[str, float]:
    """Seconds of idle by what the host did; see Budget."""
    found = dict.fromkeys(("host", "waiting", "allocating", "loading", "queued", "unknown"), 0.0)
    lengths = gaps[:, 1] - gaps[:, 0]
    if host is None or host.empty:
        return found | {"unknown": float(lengths.sum())}
    called = pd.Series(host["start"].to_numpy(), index=host["launch"].to_numpy())
    called = called[called.index >= 0]
    called = called[~called.index.duplicated()]
    starts = part["start"].to_numpy(dtype="float64")
    rows = part.index.to_numpy()
    # The launch that ends each gap, and when the host asked for it.
    at = np.searchsorted(starts, gaps[:, 1] - 1e-12)
    next_row = rows[np.minimum(at, len(rows) - 1)]
    asked = called.reindex(next_row).to_numpy(dtype="float64")
    waits, allocations = host[_named(host, BLOCKING)], host[_named(host, ALLOCATING)]
    known = ~np.isnan(asked)
    # What the host did after it had asked is not why the GPU waited.
    before = np.column_stack((gaps[:, 0], np.clip(np.where(known, asked, gaps[:, 0]), gaps[:, 0], gaps[:, 1])))
    waited, allocated = _touched(before, waits), _touched(before, allocations)
    loaded = _touched(before, host[_named(host, LOADING)]).astype(bool)
    late = before[:, 1] - before[:, 0]
    found["unknown"] = float(lengths[~known].sum())
    found["queued"] = float((lengths - late)[known].sum())
    held = np.minimum(allocated, late)
    found["allocating"] = float(held[known].sum())
    own = late - held
    after_wait = waited.astype(bool) & ~loaded
    found["loading"] = float(own[known & loaded].sum())
    found["waiting"] = float(own[known & after_wait].sum())
    found["host"] = float(own[known & ~loaded & ~after_wait].sum())
    return found


def _touched(gaps: Times, calls: pd.DataFrame) -> Times:
    """Seconds of each gap during which one of the calls went on; for a wait that ends in the gap that is its tail."""
    if calls.empty:
        return np.zeros(len(gaps))
    begin = calls["start"].to_numpy(dtype="float64")
    stop = begin + calls["time"].to_numpy(dtype="float64")
    order = np.argsort(stop)
    begin, stop = begin[order], stop[order]
    first = np.searchsorted(stop, gaps[:, 0])
    found = np.zeros(len(gaps))
    # Few calls end inside one gap; the first that ends after its begin decides, more are added.
    for step in range(4):
        at = np.minimum(first + step, len(stop) - 1)
        inside = (first + step < len(stop)) & (begin[at] < gaps[:, 1])
        shared = np.minimum(stop[at], gaps[:, 1]) - np.maximum(begin[at], gaps[:, 0])
        found += np.where(inside, np.clip(shared, 0, None), 0.0)
    return found


def _calls(host: pd.DataFrame | None, kind: re.Pattern[str], begin: float, end: float) -> int:
    if host is None or host.empty:
        return 0
    inside = host[(host["start"] >= begin) & (host["start"] < end)]
    return int(_named(inside, kind).sum())


def _named(host: pd.DataFrame, kind: re.Pattern[str]) -> pd.Series[bool]:
    """Of each call whether its name is one of a kind."""
    return _matching(host["call"], kind)


def _matching(names: pd.Series[str], kind: re.Pattern[str]) -> pd.Series[bool]:
    """Of each name whether it is one of a kind; a program's names are few and come very often."""
    return names.isin([name for name in names.unique() if kind.search(str(name))])
