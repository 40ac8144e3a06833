"""Where the wall time of a whole program went, in its steady state, before any kernel is looked at.

A moment of the window belongs to exactly one of: GPU computing, communicating alone, copying alone, or idle; idle is
told apart by what the host did meanwhile. The parts add up to the window.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzers.counts import grouped, known_sums
from analyzers.kernels.provenance import plain_name, same_kernels
from analyzers.timeline.call import Times, length, merged, rows, union
from analyzers.timeline.holes import CALLING, Hole, holes
from collectors.doubt import Doubt
from collectors.frame import distinct

Names = Sequence[str] | NDArray[np.object_] | pd.Series

COMMUNICATION = re.compile(r"nccl\w*Kernel|ncclDevKernel|\bnccl", re.IGNORECASE)
BLOCKING = re.compile(r"cu(?:da)?(?:Stream|Device|Event|Ctx)Synchronize|cu(?:da)?Memcpy(?!\w*Async)")
ALLOCATING = re.compile(r"cu(?:da)?(?:Malloc|Free|MemAlloc|MemFree|HostAlloc|MemMap|MemCreate)(?!Async)")
LOADING = re.compile(r"cu(?:da)?(?:Module|Library)Load|nvrtcCompile")
COPYING = re.compile(r"cu(?:da)?Memcpy")
WAITING = re.compile("|".join(one.pattern for one in (BLOCKING, ALLOCATING, LOADING, COPYING)))
"""Calls that may end only when the GPU is done with something."""
REPLAYING = re.compile(r"cu(?:da)?GraphLaunch")
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
AWAY = 1e-3
"""Seconds without any CUDA call from which the host did something else than launch: between two operators of a chain
Python takes tens to hundreds of microseconds."""
MOST_AWAY, MOST_SHARE = 20, 0.1
"""Such stretches a step, or for each launch, up to which they are holes; more of them are the pace of a slow host."""
FEW_STEPS = 10
"""Steps below which the spread of a few is all that is known of a step."""
IDLE = ("away", "host", "waiting", "allocating", "loading", "queued", "unknown")
"""What the GPU was idle for, as a Budget tells them apart."""
RECORDING = ("host", "queued", "waiting")
"""Idle that recording may have made: the host between its calls and in those that launch."""
SLICES = ("computing", "communicating", "copying", *IDLE)
"""The parts of a Budget, which add up to its window."""
COVERS, LEAST = 0.9, 0.3
"""Share of the best stretch, and of all launches, that steps have to explain."""


@dataclass(frozen=True)
class Steady:
    """The stretch that repeats: rows [first, end) of the launches, `steps` of `period` launches each.

    `found`: "repeating", "range" (named by the user), "after" (a number of steps was passed over) or "all" where
    nothing repeats: then it is the whole record. `marks`: the row with which each step begins, and the one after the
    last; () unless it repeats.
    """

    first: int
    end: int
    period: int
    steps: int
    found: str
    marks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Spent:
    """A kernel, copy or fill in one range of a window: `time` [s] of all its `count` launches; `own` [s] without what
    ran beside work of its slice that had begun before it, so that the `own` of all kernels add up to the time of computing.
    `slice`: the part of a budget that its time is in.
    """

    range: str
    name: str
    kind: str
    slice: str
    time: float
    own: float
    count: int


@dataclass(frozen=True)
class Budget:
    """Seconds of a window by what went on; `computing + communicating + copying + idle = window`.

    `communicating`, `copying`: nothing else ran meanwhile; `hidden`: communication beside computing. `idle` =
    `away` (the host made no CUDA call at all for AWAY or longer) + `host` (it had not launched yet, between calls that
    follow each other closely) + `waiting` (it had just waited for the GPU) +
    `allocating` + `loading` (it had just loaded code, as after compiling) + `queued` (asked for, not begun: dependencies,
    launch latency); all of it `unknown` without the host's calls. `holes`: gaps with time that is `away`, most of it after the work
    `hole_after` and before `hole_before`; `queued_gaps`: those with time that is `queued`. `loads`: calls that loaded code; `tiny` [s] of
    computing: in kernels shorter than SHORT, nothing longer beside them. `blocking`: calls that waited; `pageable` [s] of copies from pageable memory and their `pageable_bytes`;
    `short`: share of launches below SHORT. `before`, `after` [s]: of the process outside the window, NaN if not known.
    `edges` [s on the frame's clock]: where each step begins and the last one ends; () where nothing repeats. `launches` are
    of kernels, `copies` and `fills` aside. `spent`: the work of the window by range and name. `named`: its largest idle
    times by what the host did, as far as the cause is the host's. `engaged` [s]: how long the host was in what a part is
    named after, the GPU idle or not: no step gets shorter by more where that costs it nothing; {} without the host's calls.
    Of `waiting` that is what it was `blocked` for, and the idle time it left; of work see _of_work. `stream` [s]: of the stream
    that works longest; `without`: that, once the work of a slice is gone.
    """

    window: float
    computing: float
    communicating: float
    copying: float
    away: float
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
    holes: int = 0
    hole_after: str = ""
    hole_before: str = ""
    queued_gaps: int = 0
    edges: tuple[float, ...] = ()
    copies: int = 0
    fills: int = 0
    spent: tuple[Spent, ...] = ()
    named: tuple[Hole, ...] = ()
    engaged: Mapping[str, float] = field(default_factory=dict)
    stream: float = math.nan
    without: Mapping[str, float] = field(default_factory=dict)

    @property
    def idle(self) -> float:
        return sum((float(getattr(self, kind)) for kind in IDLE), 0.0)

    @property
    def parts(self) -> int:
        """How many steps or passages the window has; 1 where nothing repeats."""
        return max(self.steady.steps, 1)

    @property
    def step(self) -> float:
        """Seconds of one step; the window where nothing repeats."""
        return self.window / self.parts

    @property
    def least(self) -> float:
        """Seconds that a step takes at least where nobody records it: recording takes no more than the host's time at launches,
        and a step is no shorter than its busiest stream works."""
        launching = self.engaged.get("host", sum(float(getattr(self, kind)) for kind in RECORDING))
        working = self.window - self.idle if math.isnan(self.stream) else self.stream
        return self.step - min(launching, self.window - working) / self.parts

    @property
    def busy(self) -> float:
        """Seconds of a step in which the GPU works: what a step would take if it never idled."""
        return (self.window - self.idle) / self.parts

    @property
    def shortest(self) -> float:
        """Seconds of the shortest step; NaN where nothing repeats."""
        return min((end - begin for begin, end in pairwise(self.edges)), default=math.nan)

    @property
    def longest(self) -> float:
        """Seconds of the longest step; NaN where nothing repeats."""
        return max((end - begin for begin, end in pairwise(self.edges)), default=math.nan)

    def doubt(self) -> Doubt | None:
        """That the steps are few, and what lies between the shortest and the longest; None from FEW_STEPS on, or where
        nothing repeats."""
        steps = self.steady.steps
        if math.isnan(self.shortest) or steps >= FEW_STEPS:
            return None
        much = f"they took {self.shortest * 1e3:.3g} to {self.longest * 1e3:.3g} ms"
        return Doubt(f"the steady state has {steps} steps", much, "record more of them", "few-steps")


def steady_state(names: Names, starts: Times | None = None, *, after: int = 0, at_most: int = 0) -> Steady:
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
    most = max(int(run[-1] - run[0]) for run in runs)
    marks = min(
        (run for run in runs if run[-1] - run[0] >= COVERS * most), key=lambda run: (run[-1] - run[0]) / len(run[1:])
    )
    if marks[-1] - marks[0] < LEAST * count:
        return Steady(0, count, count, 1, "all")
    steps = len(marks) - 1
    passed = min(after + _cold(starts, marks), steps - 1)
    marks = marks[passed : passed + (at_most or steps) + 1]
    first, end, steps = int(marks[0]), int(marks[-1]), len(marks) - 1
    period = round((end - first) / steps)
    return Steady(first, end, period, steps, "after" if after else "repeating", tuple(marks.tolist()))


def _cold(starts: Times | None, marks: NDArray[np.int64]) -> int:
    """Steps at the beginning that took half as long again as the median one: compiling, loading, choosing kernels."""
    if starts is None:
        return 0
    lengths = np.diff(starts[marks])
    warm = lengths <= COLD * np.median(lengths)
    return int(np.argmax(warm)) if warm.any() else 0


def _places(names: Names) -> Iterator[NDArray[np.int64]]:
    """Where each name stands, of names that come more than REPEATS times."""
    # Of a million launches a copy of the texts is a third of a gigabyte, their places in memory ten megabytes.
    codes = pd.factorize(names if isinstance(names, pd.Series) else np.asarray(names, dtype=object))[0]
    # Small numbers are sorted by their digits, five times as fast.
    order = np.argsort(codes.astype(np.int16) if len(codes) and codes.max() < 1 << 15 else codes, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        if len(part) > REPEATS:
            yield part


def _longest_run(where: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The longest stretch of places in which the distances keep near their median; None if short."""
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

    host: what the host did (collectors.kineto.host_frame). wall [s]: of the process; lead [s]: of that before the first
    launch. after: steps to pass over; at_most: then so many; within: from the first
    to the last launch of ranges of this name, or all where it is not in the paths, in so many `passages`.
    """
    # Of a million launches every column that is not asked for is ten megabytes, several times over.
    asked = [name for name in ("range", "kernel", "kind", "start", "time", "bytes", "stream") if name in frame]
    known = None if host is None else _known(host)
    calls = None if known is None else known[known["kind"] == "call"]
    ordered = frame[asked]
    if not ordered["start"].is_monotonic_increasing:
        ordered = ordered.sort_values("start", kind="stable")
    starts = ordered["start"].to_numpy(dtype="float64")
    stops = starts + ordered["time"].to_numpy(dtype="float64")
    if within:
        inside = np.flatnonzero([within.replace("/", "|") in path.split("/") for path in ordered["range"]])
        first, behind = (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, len(ordered))
        steady = Steady(first, behind, (behind - first) // passages, passages, "range")
    else:
        steady = steady_state(ordered["kernel"], starts, after=after, at_most=at_most)
    window = slice(steady.first, steady.end)
    part, start, stop = ordered.iloc[window], starts[window], stops[window]
    begin = float(start[0])
    # A step ends where the next one begins, what is idle before that included; else with the last piece of work.
    last = float(np.fmax.reduce(stop))
    edges = starts[list(steady.marks)]
    end = float(edges[-1]) if len(edges) else last
    slices = _slices(part)
    worked, spoken, copies = (mine.to_numpy() for mine in slices.values())

    def busy(taken: NDArray[Any] | slice) -> Times:
        return merged(start[taken], stop[taken], begin, end)

    every = np.ones(len(part), dtype=bool)
    compute = busy(rows(worked))
    short = (part["time"] < SHORT).to_numpy()
    with_talk = busy(rows(~copies)) if spoken.any() else compute
    everything = busy(rows(every)) if copies.any() else with_talk
    computing, talking = length(compute), length(busy(spoken))
    gaps = _gaps(everything, begin, end)
    reached = part
    if known is not None:
        # What runs into the window from before it holds up what is in it.
        running = np.flatnonzero(stops[: steady.first] > begin)
        reached = ordered.iloc[np.r_[running, steady.first : steady.end + bool(steady.marks)]]
    idle = _idle(gaps, reached, known, (begin, end), max(MOST_AWAY * steady.steps, MOST_SHARE * len(part)))
    pageable = part[_matching(part["kernel"], re.compile(PAGEABLE))]
    total = float(np.fmax.reduce(stops))
    streams = _streams(part)

    def busiest(mine: NDArray[np.bool_]) -> float:
        """Seconds of the stream that works longest: what runs beside it may do so more, or less."""
        return max((length(busy(own[mine[own]])) for own in streams), default=0.0)

    return Budget(
        window=end - begin,
        computing=computing,
        communicating=length(with_talk) - computing,
        copying=length(everything) - length(with_talk),
        **idle,
        hidden=talking - (length(with_talk) - computing),
        tiny=computing - length(busy(worked & ~short)),
        launches=int((~copies).sum()),
        copies=int((part["kind"] == "memcpy").sum()),
        fills=int((part["kind"] == "memset").sum()),
        spent=_spent(part, slices, begin, end),
        gaps=len(gaps),
        blocking=_calls(calls, BLOCKING, begin, end),
        loads=_calls(calls, LOADING, begin, end),
        pageable=float(pageable["time"].sum()),
        pageable_bytes=float(pageable["bytes"].sum(min_count=1)) if "bytes" in pageable else math.nan,
        short=float(short[~copies].mean()) if not copies.all() else 0.0,
        before=lead + begin - float(starts[0]),
        after=wall - lead - (end - float(starts[0])) if wall == wall and lead == lead else total - end,
        steady=steady,
        edges=tuple(edges.tolist()),
        stream=busiest(every),
        without={name: busiest(~mine.to_numpy()) for name, mine in _works(part, slices).items()},
    )


def of_step(budgets: Iterable[Budget]) -> pd.DataFrame:
    """What the GPU did in a step, a row a range and name: range, name, kind, slice (of a budget), time and own [s] and count
    of a step, summed over processes and devices; the name that takes longest first. Empty without budgets.
    """
    rows = [
        (one.range, one.name, one.kind, one.slice, *(part / found.parts for part in (one.time, one.own, one.count)))
        for found in budgets
        for one in found.spent
    ]
    frame = pd.DataFrame(rows, columns=["range", "name", "kind", "slice", "time", "own", "count"])
    summed = frame.groupby(["range", "name", "kind", "slice"], sort=False, as_index=False)[
        ["time", "own", "count"]
    ].sum()
    whole = summed["time"].groupby(summed["name"]).transform("sum")
    order = np.lexsort((-summed["time"], summed["name"], -whole))
    ordered: pd.DataFrame = summed.iloc[order].reset_index(drop=True)
    return ordered


def of_ranges(step: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Range -> (seconds of kernels, kernels) of a step (of_step), what is inside it included."""
    found: dict[str, tuple[float, float]] = {}
    ran = step[step["kind"] == "kernel"]
    for path, time, count in zip(ran["range"], ran["time"], ran["count"], strict=True):
        pieces = str(path).split("/")
        for depth in range(len(pieces)):
            name = "/".join(pieces[: depth + 1])
            before = found.get(name, (0.0, 0.0))
            found[name] = (before[0] + float(time), before[1] + float(count))
    return found


def in_step(kernels: pd.DataFrame, step: pd.DataFrame, wall: float) -> pd.DataFrame:
    """Kernels with what a step (of_step) has of them: `step_time` [s] and `step_launches`, `share` of the time of all its
    kernels and `wall_share` of `wall` [s]; NaN for one that runs in no step. The longest of a step first.
    """
    ran = step[step["kind"] == "kernel"]
    # A timeline names few kernels in many launches.
    named = ran["name"].unique()
    spelt = ran["name"].map({name: plain_name(name) for name in named}).astype("str")
    sums = ran[["time", "count"]].groupby(spelt).sum()
    mine = kernels["kernel"].map(same_kernels(kernels["kernel"], named))
    seconds, count = mine.map(sums["time"]).astype("float64"), mine.map(sums["count"]).astype("float64")
    total = float(ran["time"].sum()) or math.nan
    told = kernels.assign(
        step_time=seconds, step_launches=count, share=seconds / total, wall_share=seconds / (wall or math.nan)
    )
    ordered: pd.DataFrame = told.sort_values("step_time", ascending=False, kind="stable", ignore_index=True)
    return ordered


def of_whole(kernels: pd.DataFrame, frame: pd.DataFrame, wall: float) -> pd.DataFrame:
    """Kernels of which only some launches were counted, with their `share` of the GPU time of the whole program and their
    `wall_share` of `wall` [s], both by the timeline `frame`; NaN for one that it does not name.
    """
    # A timeline names few kernels in many launches.
    spelt = {name: plain_name(name) for name in frame["kernel"].unique()}
    spent = frame["time"].groupby(frame["kernel"].map(spelt), observed=True).sum().to_dict()
    seconds = kernels["kernel"].map(same_kernels(kernels["kernel"], spelt)).map(spent).astype("float64")
    total = float(frame["time"].sum()) or math.nan
    shared: pd.DataFrame = kernels.assign(share=seconds / total, wall_share=seconds / (wall or math.nan))
    return shared


def _streams(part: pd.DataFrame) -> list[NDArray[np.int64]]:
    """The rows of each stream in order; where none is told all are of one."""
    codes = pd.factorize(part["stream"])[0] if "stream" in part else np.zeros(len(part), dtype=int)
    order = np.argsort(codes, kind="stable")
    order = order[np.searchsorted(codes[order], 0) :]
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _gaps(busy: Times, begin: float, end: float) -> Times:
    """Idle stretches between busy ones; shape (n, 2)."""
    edges = np.concatenate(([begin], busy.ravel(), [end])).reshape(-1, 2)
    return edges[edges[:, 1] > edges[:, 0]]


def _known(host: pd.DataFrame) -> pd.DataFrame:
    """What the host did, without the row of the process itself; rows numbered, threads as numbers, `kind` there."""
    kept = host[host["call"] != "process"].reset_index(drop=True)
    kind = kept.get("kind", "call")
    known: pd.DataFrame = kept.assign(kind=kind, thread=pd.factorize(kept["thread"])[0])
    return known


def _slices(part: pd.DataFrame) -> dict[str, pd.Series[bool]]:
    """The slices of a budget that are work, in the order of SLICES -> which launches are of it, each of one; fills are copies."""
    copies = part["kind"].isin(("memcpy", "memset"))
    spoken = ~copies & _matching(part["kernel"], COMMUNICATION)
    return {"computing": ~copies & ~spoken, "communicating": spoken, "copying": copies}


def _works(part: pd.DataFrame, slices: dict[str, pd.Series[bool]]) -> dict[str, pd.Series[bool]]:
    """What work may cost nothing -> which launches are of it, where there is any; of computing that is the `tiny`."""
    works = {**slices, "tiny": slices["computing"] & (part["time"] < SHORT)}
    return {name: works[name] for name in ("copying", "communicating", "tiny") if works[name].any()}


def _spent(part: pd.DataFrame, slices: dict[str, pd.Series[bool]], begin: float, end: float) -> tuple[Spent, ...]:
    """The work of the window by range and name, the name that takes longest first."""
    start = np.clip(part["start"].to_numpy(dtype="float64"), begin, end)
    stop = np.clip((part["start"] + part["time"]).to_numpy(dtype="float64"), begin, end)
    own = np.zeros(len(part))
    for mine in (rows(mine.to_numpy()) for mine in slices.values()):
        reached = np.concatenate(([begin], np.maximum.accumulate(stop[mine])))[:-1]
        own[mine] = np.clip(stop[mine] - np.maximum(start[mine], reached), 0, None)
    groups, first = grouped([part[name] for name in ("range", "kernel", "kind") if name in part])
    time, mine = known_sums(np.array([part["time"].to_numpy(dtype="float64"), own]), groups)
    names = np.select([mine.iloc[first] for mine in slices.values()], list(slices), "")
    texts = part.iloc[first].reindex(columns=["range", "kernel", "kind"], fill_value="").astype(str).assign(slice=names)
    found = [
        Spent(*row)
        for row in zip(*map(texts.get, texts), time.tolist(), mine.tolist(), np.bincount(groups).tolist(), strict=True)
    ]
    whole: dict[str, float] = {}
    for one in found:
        whole[one.name] = whole.get(one.name, 0.0) + one.time
    return tuple(sorted(found, key=lambda one: (-whole[one.name], one.name, -one.time)))


def _idle(
    gaps: Times, part: pd.DataFrame, host: pd.DataFrame | None, window: tuple[float, float], most: float
) -> dict[str, Any]:
    """Seconds of idle by what the host did, where it was away, and what it was engaged in; see Budget. most: holes that are
    no pace yet.
    """
    found: dict[str, Any] = dict.fromkeys(IDLE, 0.0)
    lengths = gaps[:, 1] - gaps[:, 0]
    calls = host[host["kind"] == "call"] if host is not None else None
    if host is None or calls is None or calls.empty:
        return found | {"unknown": float(lengths.sum())}
    # The launch that ends each gap, and when the host asked for it.
    next_row = _next(gaps, part)
    asked, caller = _asked(calls, part, next_row)
    known = ~np.isnan(asked)
    # What the host did after it had asked is not why the GPU waited.
    before = np.column_stack((gaps[:, 0], np.clip(np.where(known, asked, gaps[:, 0]), gaps[:, 0], gaps[:, 1])))
    told = {
        name: _touched(before, calls[_named(calls, kind)])
        for name, kind in zip(CALLING, (BLOCKING, ALLOCATING, LOADING), strict=True)
    }
    loaded = told["loading"][0].astype(bool)
    late = before[:, 1] - before[:, 0]
    queued = np.where(known, lengths - late, 0.0)
    held = np.where(known, np.minimum(told["allocating"][0], late), 0.0)
    pauses = _pauses(calls)
    quiet = pauses[pauses[:, 1] - pauses[:, 0] >= AWAY]
    away = np.where(known & ~loaded, np.minimum(_inside(quiet, before), late - held), 0.0)
    paced = np.count_nonzero(away) > most
    if paced:
        away[:] = 0.0
    own = np.where(known, late - held - away, 0.0)
    after_wait = told["waiting"][0].astype(bool) & ~loaded
    slices = {
        "allocating": held,
        "away": away,
        "loading": np.where(loaded, own, 0.0),
        "waiting": np.where(after_wait, own, 0.0),
        "host": np.where(~loaded & ~after_wait, own, 0.0),
    }
    found["unknown"] = float(lengths[~known].sum())
    found["queued"], found["queued_gaps"] = float(queued.sum()), int(np.count_nonzero(queued))
    found |= {name: float(seconds.sum()) for name, seconds in slices.items()}
    names = _round(gaps, part, next_row)
    threads = np.where(caller >= 0, host["thread"].to_numpy()[caller], -1)
    each = {"middle": before.mean(axis=1), "thread": threads, "calls": {name: row for name, (_, row) in told.items()}}
    found["named"] = holes({**each, **names}, slices, host)
    engaged = _engaged(calls, pauses, quiet[:0] if paced else quiet, window)
    engaged |= _of_work(calls, part, window)
    # What a wait leaves behind it goes with it, launching included.
    engaged["waiting"] += float((own + queued)[known & after_wait].sum())
    return found | _where(away, names) | {"engaged": engaged}


def _next(gaps: Times, part: pd.DataFrame) -> NDArray[np.int64]:
    """The index in `part` of the launch that ends each gap."""
    at = np.searchsorted(part["start"].to_numpy(dtype="float64"), gaps[:, 1] - 1e-12)
    rows: NDArray[np.int64] = part.index.to_numpy()[np.minimum(at, len(part) - 1)]
    return rows


def _asked(calls: pd.DataFrame, part: pd.DataFrame, rows: NDArray[np.int64]) -> tuple[Times, NDArray[np.int64]]:
    """When the host asked for each of these launches [s], NaN where nobody knows, and by which row of its calls, -1.

    A graph's launch names one of its kernels: the others were asked for by the last graph whose first one had begun.
    """
    called = pd.Series(calls.index.to_numpy(), index=calls["launch"].to_numpy())
    called = called[called.index >= 0]
    first = called[~called.index.duplicated()]
    caller = first.reindex(rows).fillna(-1).to_numpy(dtype=np.int64)
    starts = part["start"]
    graphs = calls[_named(calls, REPLAYING) & calls["launch"].isin(part.index)]
    if len(graphs) and (caller < 0).any():
        begun = starts.reindex(graphs["launch"]).to_numpy(dtype="float64")
        order = np.argsort(begun)
        last = np.searchsorted(begun[order], starts.reindex(rows).to_numpy(dtype="float64"), side="right") - 1
        caller = np.where((caller < 0) & (last >= 0), graphs.index.to_numpy()[order][last], caller)
    asked = calls["start"].reindex(caller).to_numpy(dtype="float64")
    return asked, caller


def _pauses(calls: pd.DataFrame) -> Times:
    """Stretches without any CUDA call; shape (n, 2)."""
    busy = union(calls, -math.inf, math.inf)
    # Before the first recorded call and after the last nothing is known.
    return np.column_stack((busy[:-1, 1], busy[1:, 0]))


def _inside(stretches: Times, gaps: Times) -> Times:
    """Seconds of each gap that lie in the stretches, which follow each other."""
    if not len(stretches):
        return np.zeros(len(gaps))
    until = passed(stretches, gaps.ravel()).reshape(-1, 2)
    found: Times = until[:, 1] - until[:, 0]
    return found


def passed(stretches: Times, times: Times) -> Times:
    """Seconds of the stretches, which follow each other, that have passed at each of these times; shape of `times`."""
    sums = np.column_stack((np.zeros(len(stretches)), stretches[:, 1] - stretches[:, 0])).ravel().cumsum()
    found: Times = np.interp(times, stretches.ravel(), sums)
    return found


def _engaged(calls: pd.DataFrame, pauses: Times, quiet: Times, window: tuple[float, float]) -> dict[str, float]:
    """Seconds of a window by what the host was in, the GPU idle or not; see Budget. quiet: pauses in which it was away."""
    launches = calls[calls["launch"] >= 0]
    mine = calls[calls["thread"].isin(launches["thread"].unique())]
    kinds = {"waiting": BLOCKING, "allocating": ALLOCATING}
    held = {name: union(mine[_named(mine, kind)], *window) for name, kind in kinds.items()}
    # Compiling is what the host did since it last launched.
    stops = np.sort((launches["start"] + launches["time"]).to_numpy(dtype="float64"))
    loads = calls[_named(calls, LOADING)]
    starts, ends = loads["start"].to_numpy(dtype="float64"), (loads["start"] + loads["time"]).to_numpy(dtype="float64")
    last = np.searchsorted(stops, starts, side="right")
    since = np.where(last > 0, stops[np.maximum(last - 1, 0)], starts) if len(stops) else starts
    held["loading"] = merged(since, ends, *window)
    away = np.clip(quiet, *window)
    found = {name: length(stretches) for name, stretches in held.items()}
    found |= {"blocked": found["waiting"], "away": float(length(away) - _inside(held["loading"], away).sum())}
    held["away"] = away
    # Before and after it was away it may have been at a launch for as long as it is between any two.
    lengths, near = pauses[:, 1] - pauses[:, 0], np.count_nonzero(away[:, 1] > away[:, 0])
    inside = (pauses[:, 1] > window[0]) & (pauses[:, 0] < window[1]) & (lengths < AWAY)
    pace = float(lengths[inside].max(initial=0.0))
    return found | {
        "host": max(0.0, window[1] - window[0] - length(merged(*np.vstack(list(held.values())).T)) + near * pace)
    }


def _of_work(calls: pd.DataFrame, part: pd.DataFrame, window: tuple[float, float]) -> dict[str, float]:
    """Seconds of a window in which other work that was asked for, or the host, had nothing to wait for but work of a slice,
    whatever else the GPU did meanwhile; of copies those too that the host is in handing them over. `all_tiny`: short kernels
    run. `queued`: work was asked for and its stream had nothing to do.
    """
    asked = pd.Series(_asked(calls, part, part.index.to_numpy())[0], index=part.index)
    timed = [name for name in (*_WHEN, "stream") if name in part]
    ready, ends = _ready(part, asked), part["start"] + part["time"]
    found = {"queued": length(_cut(ready, part["start"], window))}
    # Launching takes that long where the queue is full.
    full = (calls["launch"] >= 0) & (calls["time"] >= _FULL)
    stopped = union(calls[_matching(calls["call"], WAITING) | full], *window)
    ended = np.sort(ends.to_numpy())
    last = part.index.to_numpy()[np.argsort(ends.to_numpy(), kind="stable")]
    at = np.maximum(np.searchsorted(ended, stopped[:, 1], side="right") - 1, 0)
    for name, mine in _works(part, _slices(part)).items():
        begins = part["start"] if name == "tiny" else ready
        kept = part.loc[~mine, timed]
        # The host hears a while later that the work has ended that it waited for.
        heard = np.column_stack((np.clip(ended[at], *stopped.T), stopped[:, 1]))[mine[last[at]].to_numpy()]
        sets = (
            _cut(begins[mine], ends[mine], window),
            _cut(_ready(kept, asked[~mine]), kept["start"], window),
            stopped,
            merged(*np.vstack((heard, _handing(calls, part, window))).T) if name == "copying" else heard,
        )
        edges = np.unique(np.concatenate([one.ravel() for one in sets]))
        middles = (edges[1:] + edges[:-1]) / 2
        way, held, stop, own = (np.searchsorted(one.ravel(), middles) % 2 == 1 for one in sets)
        found[name] = float(np.diff(edges)[(way & (held | stop)) | own].sum())
        if name == "tiny":
            found["all_tiny"] = length(sets[0])
    return found


_FULL = 50e-6
"""Seconds from which on a launching call waits for what was launched before."""


def _ready(part: pd.DataFrame, asked: pd.Series[float]) -> pd.Series[float]:
    """Of each launch when it was asked for and its stream was done with what came before, as far as either is known [s]."""
    streams = part["stream"] if "stream" in part else pd.Series("", index=part.index)
    ended = (part["start"] + part["time"]).groupby(streams, sort=False, observed=True).cummax()
    before = ended.groupby(streams, sort=False, observed=True).shift()
    known: pd.Series[float] = before.where(~(asked > before), asked).fillna(asked).fillna(-math.inf)
    return known.clip(upper=part["start"])


def _cut(begins: pd.Series[float], ends: pd.Series[float], window: tuple[float, float]) -> Times:
    """Merged stretches of a window."""
    return merged(begins.to_numpy(), ends.to_numpy(), *window)


def _handing(calls: pd.DataFrame, part: pd.DataFrame, window: tuple[float, float]) -> Times:
    """When the host was in calls that copy, and in waits right behind a copy that takes longer than a call."""
    ordered = calls.sort_values(["thread", "start"], kind="stable")
    copies = _named(ordered, COPYING)
    long = copies & (ordered["launch"].map(part["time"]) >= SHORT)
    behind = long.shift(fill_value=False) & ordered["thread"].eq(ordered["thread"].shift()) & _named(ordered, BLOCKING)
    return union(ordered[copies | behind], *window)


def _round(gaps: Times, part: pd.DataFrame, next_row: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """The names of the work that ended last before each gap, and of that which ends it."""
    ends = (part["start"] + part["time"]).to_numpy(dtype="float64")
    order = np.argsort(ends, kind="stable")
    last = np.searchsorted(ends[order], gaps[:, 0] + 1e-12, side="right") - 1
    kernels = part["kernel"].to_numpy(dtype=object)
    after = kernels[order[np.maximum(last, 0)]]
    return {"after": after, "before": part["kernel"].reindex(next_row).to_numpy(dtype=object)}


def _where(away: Times, names: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """How many gaps hold time away, and after and before which work most of that time lies."""
    at = np.flatnonzero(away)
    if not len(at):
        return {}
    seconds = pd.Series(away[at])
    most = {f"hole_{side}": str(seconds.groupby(names[side][at]).sum().idxmax()) for side in ("after", "before")}
    return {"holes": len(at), **most}


def _touched(gaps: Times, calls: pd.DataFrame) -> tuple[Times, NDArray[np.int64]]:
    """Seconds of each gap during which one of the calls went on (for a wait that ends in the gap that is its tail), and the
    call that holds most of them, -1 for none."""
    row = np.full(len(gaps), -1, dtype=np.int64)
    if calls.empty:
        return np.zeros(len(gaps)), row
    begin = calls["start"].to_numpy(dtype="float64")
    stop = begin + calls["time"].to_numpy(dtype="float64")
    order = np.argsort(stop)
    begin, stop, index = begin[order], stop[order], calls.index.to_numpy()[order]
    first = np.searchsorted(stop, gaps[:, 0])
    found, most = np.zeros(len(gaps)), np.zeros(len(gaps))
    # Few calls end inside one gap; the first that ends after its begin decides, more are added.
    for step in range(4):
        at = np.minimum(first + step, len(stop) - 1)
        inside = (first + step < len(stop)) & (begin[at] < gaps[:, 1])
        shared = np.minimum(stop[at], gaps[:, 1]) - np.maximum(begin[at], gaps[:, 0])
        held = np.where(inside, np.clip(shared, 0, None), 0.0)
        row = np.where(held > most, index[at], row)
        found, most = found + held, np.maximum(most, held)
    return found, row


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
    return names.isin([name for name in distinct(names) if kind.search(str(name))])
