"""Wall time of a program in its steady state, split before any kernel is examined.

Each moment of the window is one of: GPU computing, communication only, memcpy only, or idle; idle time is split by host
activity (idle.py). The parts add up to the window.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzers.counts import grouped, known_sums
from analyzers.timeline.calls import BLOCKING, LOADING, SHORT, matching, parts_of_work, slices_of_work
from analyzers.timeline.idle import IDLE, Hole, idle_causes
from analyzers.timeline.intervals import Times, gaps, length, merged
from analyzers.timeline.steady import Steady, steady_of
from collectors.caveat import Caveat

PAGEABLE = re.compile("Pageable")
FEW_STEPS = 10
"""Number of steps below which there is a caveat about their spread; convention."""
RECORDING = ("host", "queued", "waiting")
"""Idle time that recording may have caused: the host between calls, and in calls that launch."""
SLICES = ("computing", "communicating", "copying", *IDLE)
"""Parts of a Budget, which add up to its window."""


@dataclass(frozen=True)
class Spent:
    """A kernel, copy or fill in one range of a window: `time` [s] of all its `count` launches.

    `own` [s]: without overlap with earlier work of the same slice, so that the `own` of all kernels add up to the
    computing time. `slice`: the part of a budget that contains its time.
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
    """Seconds of a window: computing + communicating + copying + idle = window.

    `communicating`, `copying`: without other work; `hidden`: communication that overlaps computing. `idle`: sum of the
    causes in IDLE (idle.py); `named`: the largest idle times by host activity. `holes`: number of gaps with `away`
    time, most of it before the work `hole_before`; `queued_gaps`: with `queued` time. `loads`: calls that loaded code;
    `blocking`: calls that waited. `tiny`: computing in kernels shorter than SHORT, without overlap by longer ones;
    `short`: share of launches below SHORT. `pageable` [s], `pageable_bytes`: copies from pageable memory. `launches`:
    kernels, without `copies` and `fills`. `edges` [s on the frame's clock]: begin of each step and end of the last; ()
    if nothing repeats. `spent`: work by range and name.

    `engaged`: seconds by part during which its cause was active, whether or not the GPU was idle: the most a step can
    gain; {} without host calls. For `waiting`: the host `blocked`, plus the idle time after it. `stream`: seconds of
    the busiest stream; `without`: the same without a slice's work.
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
    steady: Steady
    holes: int = 0
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
        """Number of steps or passages in the window; 1 if nothing repeats."""
        return max(self.steady.steps, 1)

    @property
    def step(self) -> float:
        """Seconds of one step; the window if nothing repeats."""
        return self.window / self.parts

    @property
    def least(self) -> float:
        """Least seconds of a step without recording, if recording caused all launch time."""
        launching = self.engaged.get("host", sum(float(getattr(self, kind)) for kind in RECORDING))
        working = self.window - self.idle if math.isnan(self.stream) else self.stream
        return self.step - min(launching, self.window - working) / self.parts

    @property
    def busy(self) -> float:
        """Seconds of a step in which the GPU works."""
        return (self.window - self.idle) / self.parts

    @property
    def shortest(self) -> float:
        """Seconds of the shortest step; NaN if nothing repeats."""
        return min((end - begin for begin, end in pairwise(self.edges)), default=math.nan)

    @property
    def longest(self) -> float:
        """Seconds of the longest step; NaN if nothing repeats."""
        return max((end - begin for begin, end in pairwise(self.edges)), default=math.nan)

    def caveat(self) -> Caveat | None:
        """Caveat about fewer than FEW_STEPS steps, with their spread."""
        steps = self.steady.steps
        if math.isnan(self.shortest) or steps >= FEW_STEPS:
            return None
        if steps == 1:
            return Caveat("one step: what varies from step to step is unknown", "", "record more of them", "few-steps")
        much = f"they took {self.shortest * 1e3:.3g} to {self.longest * 1e3:.3g} ms"
        return Caveat(f"the steady state has {steps} steps", much, "record more of them", "few-steps")


@dataclass(frozen=True)
class _Window:
    """Launches `part` of a window [begin, end) of `steady`; edges: see Budget."""

    part: pd.DataFrame
    start: Times
    stop: Times
    begin: float
    end: float
    steady: Steady
    edges: Times

    @classmethod
    def of(cls, ordered: pd.DataFrame, steady: Steady) -> _Window:
        starts = ordered["start"].to_numpy(dtype="float64")
        stops = starts + ordered["time"].to_numpy(dtype="float64")
        window = slice(steady.first, steady.end)
        last = float(np.fmax.reduce(stops[window]))
        # A step ends where the next one begins, what is idle before that included; else with the last piece of work.
        edges = np.append(starts, last)[list(steady.marks)]
        end = float(edges[-1]) if len(edges) else last
        return cls(ordered.iloc[window], starts[window], stops[window], float(starts[steady.first]), end, steady, edges)

    @cached_property
    def slices(self) -> dict[str, NDArray[np.bool_]]:
        return {name: mine.to_numpy() for name, mine in slices_of_work(self.part).items()}

    def busy(self, mine: NDArray[Any]) -> Times:
        """Merged intervals of the launches selected by mask or position."""
        return merged(self.start[mine], self.stop[mine], self.begin, self.end)

    @cached_property
    def streams(self) -> list[NDArray[np.int64]]:
        """Rows of each stream in order; without streams all rows are one stream."""
        codes = pd.factorize(self.part["stream"])[0] if "stream" in self.part else np.zeros(len(self.part), dtype=int)
        order = np.argsort(codes, kind="stable")
        order = order[np.searchsorted(codes[order], 0) :]
        return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)

    def busiest(self, mine: NDArray[np.bool_]) -> float:
        """Seconds of the stream that is busiest with these launches."""
        return max((length(self.busy(own[mine[own]])) for own in self.streams), default=0.0)


def budget(
    frame: pd.DataFrame,
    *,
    host: pd.DataFrame | None = None,
    after: int = 0,
    at_most: int = 0,
    within: str = "",
    passages: int = 1,
) -> Budget:
    """The budget of one process and device. frame: its launches with start and time [s].

    host: host activity (collectors.kineto.host_frame). after: steps to skip; at_most: steps to take then. within: take
    the launches from the first to the last range of this name, as so many `passages`; all launches if there is none.
    """
    # Of a million launches every column that is not asked for is ten megabytes, several times over.
    asked = [name for name in ("range", "kernel", "kind", "start", "time", "bytes", "stream") if name in frame]
    ordered = frame[asked]
    if not ordered["start"].is_monotonic_increasing:
        ordered = ordered.sort_values("start", kind="stable")
    if within:
        inside = np.flatnonzero([within.replace("/", "|") in path.split("/") for path in ordered["range"]])
        first, behind = (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, len(ordered))
        steady = Steady(first, behind, passages, "range")
    else:
        steady = steady_of(ordered, after=after, at_most=at_most)
    known = None if host is None else _known(host)
    window = _Window.of(ordered, steady)
    return Budget(
        window=window.end - window.begin,
        **_worked(window),
        **_idled(window, ordered, known),
        **_called(known, window),
        **_counted(window),
        steady=steady,
        edges=tuple(window.edges.tolist()),
        spent=_spent(window),
        stream=window.busiest(np.ones(len(window.part), dtype=bool)),
        without={name: window.busiest(~mine.to_numpy()) for name, mine in parts_of_work(window.part).items()},
    )


def _worked(window: _Window) -> dict[str, Any]:
    """Seconds of work by slice; computing has priority over communicating, then copying."""
    worked, spoken, copies = window.slices.values()
    computing = length(window.busy(worked))
    talking = length(window.busy(~copies)) if spoken.any() else computing
    short = (window.part["time"] < SHORT).to_numpy()
    return {
        "computing": computing,
        "communicating": talking - computing,
        "copying": length(window.busy(np.ones(len(worked), dtype=bool))) - talking,
        "hidden": length(window.busy(spoken)) - (talking - computing),
        "tiny": computing - length(window.busy(worked & ~short)),
    }


def _idled(window: _Window, ordered: pd.DataFrame, known: pd.DataFrame | None) -> dict[str, Any]:
    """Seconds of idle time by cause, and the gaps."""
    found = gaps(window.busy(np.ones(len(window.part), dtype=bool)), window.begin, window.end)
    steady, reached = window.steady, window.part
    if known is not None:
        # What runs into the window from before it holds up what is in it.
        stops = (ordered["start"] + ordered["time"]).to_numpy(dtype="float64")
        running = np.flatnonzero(stops[: steady.first] > window.begin)
        behind = min(steady.end + bool(steady.marks), len(ordered))
        reached = ordered.take(np.r_[running, steady.first : behind])
    told = idle_causes(found, reached, known, (window.begin, window.end), steady.steps)
    return {"gaps": len(found), **told}


def _called(known: pd.DataFrame | None, window: _Window) -> dict[str, Any]:
    """Number of calls of each kind in the window."""
    if known is None:
        return {"blocking": 0, "loads": 0}
    within = (known["start"] < window.end) & (known["start"] + known["time"] > window.begin)
    inside: pd.DataFrame = known[within & (known["kind"] == "call")]
    return {
        "blocking": int(matching(inside["call"], BLOCKING).sum()),
        "loads": int(matching(inside["call"], LOADING).sum()),
    }


def _counted(window: _Window) -> dict[str, Any]:
    """Launches by kind, the share of short launches, and copies from pageable memory."""
    part, copies = window.part, window.slices["copying"]
    pageable = part[matching(part["kernel"], PAGEABLE)]
    return {
        "launches": int((~copies).sum()),
        "copies": int((part["kind"] == "memcpy").sum()),
        "fills": int((part["kind"] == "memset").sum()),
        "pageable": float(pageable["time"].sum()),
        "pageable_bytes": float(pageable["bytes"].sum(min_count=1)) if "bytes" in pageable else math.nan,
        "short": float((part["time"] < SHORT).to_numpy()[~copies].mean()) if not copies.all() else 0.0,
    }


def _known(host: pd.DataFrame) -> pd.DataFrame:
    """Host calls and spans; rows and threads numbered."""
    kept = host.reset_index(drop=True)
    known: pd.DataFrame = kept.assign(kind=kept.get("kind", "call"), thread=pd.factorize(kept["thread"])[0])
    return known


def _spent(window: _Window) -> tuple[Spent, ...]:
    """Work in the window by range and name, the name with the most time first."""
    part = window.part
    start, stop = (np.clip(times, window.begin, window.end) for times in (window.start, window.stop))
    own = np.zeros(len(part))
    for mine in window.slices.values():
        reached = np.concatenate(([window.begin], np.maximum.accumulate(stop[mine])))[:-1]
        own[mine] = np.clip(stop[mine] - np.maximum(start[mine], reached), 0, None)
    groups, first = grouped([part[name] for name in ("range", "kernel", "kind") if name in part])
    time, mine = known_sums(np.array([part["time"].to_numpy(dtype="float64"), own]), groups)
    names = np.select([mine[first] for mine in window.slices.values()], list(window.slices), "")
    texts = part.iloc[first].reindex(columns=["range", "kernel", "kind"], fill_value="").astype(str).assign(slice=names)
    found = [
        Spent(*row)
        for row in zip(*map(texts.get, texts), time.tolist(), mine.tolist(), np.bincount(groups).tolist(), strict=True)
    ]
    whole: dict[str, float] = {}
    for one in found:
        whole[one.name] = whole.get(one.name, 0.0) + one.time
    return tuple(sorted(found, key=lambda one: (-whole[one.name], one.name, -one.time)))
