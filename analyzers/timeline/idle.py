"""Causes of idle GPU time by host activity.

Causes: `away` (no CUDA call for AWAY or longer), `host` (not launched yet, between closely spaced calls), `waiting`
(the host had just waited for the GPU), `allocating`, `loading` (code had just been loaded, as after compiling),
`queued` (launched but not started: dependencies, launch latency); without host calls all is `unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzers.timeline.calls import (
    ALLOCATING,
    BLOCKING,
    COPYING,
    LOADING,
    REPLAYING,
    SHORT,
    WAITING,
    matching,
    parts_of_work,
)
from analyzers.timeline.intervals import Times, length, merged, shared, union
from collectors.kineto import ranges_of
from collectors.nsys.ranges import Range, by_thread, paths

IDLE = ("away", "host", "waiting", "allocating", "loading", "queued", "unknown")
AWAY = 1e-3
"""Seconds without any CUDA call from which the host was busy elsewhere; between two operators Python takes tens to
hundreds of microseconds.
"""
MOST_AWAY, MOST_SHARE = 20, 0.1
"""Most such pauses per step, or per launch; more are the pace of a slow host
(tests/triggers/slow_host).
"""
_FULL = 50e-6
"""Duration from which a launching call waits for a full queue [s]: ten times a normal call."""

MOST_HOLES = 8
"""Kinds of idle time kept, the largest first."""
_FRAME = re.compile(r".*\(\d+\): |<built-in ")
"""Python's frames and calls, as torch.profiler names them with with_stack=True."""
CALLING = {"waiting": BLOCKING, "allocating": ALLOCATING, "loading": LOADING}
"""Causes that are host calls."""


@dataclass(frozen=True)
class Hole:
    """Idle time [s] in `count` gaps of one cause (of Budget), with the host's activity.

    `call`: the CUDA call it was in or had just left; `op`: the outermost operator around it; `within`: the path of
    ranges; each "" if not recorded. `after`, `before`: the work around most of the time.
    """

    cause: str
    seconds: float
    count: int
    call: str
    op: str
    within: str
    after: str
    before: str

    @property
    def doing(self) -> str:
        """ "cudaStreamSynchronize, aten::item, step/loss": the innermost first; "" unknown."""
        return ", ".join(part for part in (self.call, self.op, self.within) if part)


def idle_causes(
    gaps: Times, part: pd.DataFrame, host: pd.DataFrame | None, window: tuple[float, float], steps: int
) -> dict[str, Any]:
    """Idle-time fields of a Budget. part: launches; host: calls and spans, rows numbered."""
    found: dict[str, Any] = dict.fromkeys(IDLE, 0.0)
    lengths = gaps[:, 1] - gaps[:, 0]
    calls = host[host["kind"] == "call"] if host is not None else None
    if host is None or calls is None or calls.empty:
        return found | {"unknown": float(lengths.sum())}
    told = _Gaps.of(gaps, part, calls)
    busy = union(calls)
    # Nothing is known before the first call and after the last.
    pauses = np.column_stack((busy[:-1, 1], busy[1:, 0]))
    quiet = pauses[pauses[:, 1] - pauses[:, 0] >= AWAY]
    away = told.away(quiet)
    if np.count_nonzero(away) > max(MOST_AWAY * steps, MOST_SHARE * len(part)):
        away[:], quiet = 0.0, quiet[:0]
    slices = told.slices(away)
    found["unknown"] = float(lengths[~told.known].sum())
    queued = np.where(told.known, lengths - told.late, 0.0)
    found["queued"], found["queued_gaps"] = float(queued.sum()), int(np.count_nonzero(queued))
    found |= {name: float(seconds.sum()) for name, seconds in slices.items()}
    found["named"] = _holes(told.described(host, part), slices, host)
    engaged = _engaged(calls, pauses, quiet, window) | _pending(calls, part, window)
    # What a wait leaves behind it goes with it, launching included.
    after_wait = told.calls["waiting"][0].astype(bool) & ~told.calls["loading"][0].astype(bool)
    engaged["waiting"] += float((told.late - told.held - away + queued)[told.known & after_wait].sum())
    at = np.flatnonzero(away)
    if len(at):
        before = part["kernel"].reindex(told.next_row[at]).to_numpy(dtype=object)
        found |= {"holes": len(at), "hole_before": str(pd.Series(away[at]).groupby(before).sum().idxmax())}
    return found | {"engaged": engaged}


@dataclass(frozen=True)
class _Gaps:
    """Gaps, the launch that ends each (`next_row`), and its launch call.

    `caller`: row of that call, -1 unknown; `before`: the part before it; calls: cause of CALLING -> (seconds of each
    gap in such a call, row of the call).
    """

    gaps: Times
    next_row: NDArray[np.int64]
    caller: NDArray[np.int64]
    known: NDArray[np.bool_]
    before: Times
    calls: dict[str, tuple[Times, NDArray[np.int64]]]

    @classmethod
    def of(cls, gaps: Times, part: pd.DataFrame, calls: pd.DataFrame) -> _Gaps:
        at = np.searchsorted(part["start"].to_numpy(dtype="float64"), gaps[:, 1] - 1e-12)
        next_row: NDArray[np.int64] = part.index.to_numpy()[np.minimum(at, len(part) - 1)]
        asked, caller = asked_for(calls, part, next_row)
        known = ~np.isnan(asked)
        # What the host did after it had asked is not why the GPU waited.
        before = np.column_stack((gaps[:, 0], np.clip(np.where(known, asked, gaps[:, 0]), gaps[:, 0], gaps[:, 1])))
        held = {name: _touched(before, calls[matching(calls["call"], kind)]) for name, kind in CALLING.items()}
        return cls(gaps, next_row, caller, known, before, held)

    @property
    def late(self) -> Times:
        """Seconds of each gap before its launch call."""
        return self.before[:, 1] - self.before[:, 0]

    @property
    def held(self) -> Times:
        """Seconds of each gap in allocating calls."""
        return np.where(self.known, np.minimum(self.calls["allocating"][0], self.late), 0.0)

    def away(self, quiet: Times) -> Times:
        """Seconds of each gap in these host pauses, except while loading code."""
        loaded = self.calls["loading"][0].astype(bool)
        return np.where(self.known & ~loaded, np.minimum(shared(quiet, self.before), self.late - self.held), 0.0)

    def slices(self, away: Times) -> dict[str, Times]:
        """Cause -> seconds of each gap."""
        loaded, waited = (self.calls[name][0].astype(bool) for name in ("loading", "waiting"))
        own = np.where(self.known, self.late - self.held - away, 0.0)
        return {
            "allocating": self.held,
            "away": away,
            "loading": np.where(loaded, own, 0.0),
            "waiting": np.where(waited & ~loaded, own, 0.0),
            "host": np.where(~waited & ~loaded, own, 0.0),
        }

    def described(self, host: pd.DataFrame, part: pd.DataFrame) -> dict[str, Any]:
        """Time, thread (-1 unknown), calls and surrounding work of each gap."""
        ends = (part["start"] + part["time"]).to_numpy(dtype="float64")
        order = np.argsort(ends, kind="stable")
        last = np.searchsorted(ends[order], self.gaps[:, 0] + 1e-12, side="right") - 1
        return {
            "middle": self.before.mean(axis=1),
            "thread": np.where(self.caller >= 0, host["thread"].to_numpy()[self.caller], -1),
            "calls": {name: row for name, (_, row) in self.calls.items()},
            "after": part["kernel"].to_numpy(dtype=object)[order[np.maximum(last, 0)]],
            "before": part["kernel"].reindex(self.next_row).to_numpy(dtype=object),
        }


def asked_for(calls: pd.DataFrame, part: pd.DataFrame, rows: NDArray[np.int64]) -> tuple[Times, NDArray[np.int64]]:
    """Time [s] of each launch call (NaN unknown), and its row (-1).

    A graph's launch names one of its kernels: the others belong to the last graph that had started.
    """
    called = pd.Series(calls.index.to_numpy(), index=calls["launch"].to_numpy())
    called = called[called.index >= 0]
    first = called[~called.index.duplicated()]
    caller = first.reindex(rows).fillna(-1).to_numpy(dtype=np.int64)
    starts = part["start"]
    graphs = calls[matching(calls["call"], REPLAYING) & calls["launch"].isin(part.index)]
    if len(graphs) and (caller < 0).any():
        begun = starts.reindex(graphs["launch"]).to_numpy(dtype="float64")
        order = np.argsort(begun)
        last = np.searchsorted(begun[order], starts.reindex(rows).to_numpy(dtype="float64"), side="right") - 1
        caller = np.where((caller < 0) & (last >= 0), graphs.index.to_numpy()[order][last], caller)
    asked = calls["start"].reindex(caller).to_numpy(dtype="float64")
    return asked, caller


def _engaged(calls: pd.DataFrame, pauses: Times, quiet: Times, window: tuple[float, float]) -> dict[str, float]:
    """Seconds of a window that the host spent on each cause, GPU idle or not."""
    launches = calls[calls["launch"] >= 0]
    mine = calls[calls["thread"].isin(launches["thread"].unique())]
    kinds = {"waiting": BLOCKING, "allocating": ALLOCATING}
    held = {name: union(mine[matching(mine["call"], kind)], *window) for name, kind in kinds.items()}
    # Compiling is what the host did since it last launched.
    stops = np.sort((launches["start"] + launches["time"]).to_numpy(dtype="float64"))
    loads = calls[matching(calls["call"], LOADING)]
    starts, ends = loads["start"].to_numpy(dtype="float64"), (loads["start"] + loads["time"]).to_numpy(dtype="float64")
    last = np.searchsorted(stops, starts, side="right")
    since = np.where(last > 0, stops[np.maximum(last - 1, 0)], starts) if len(stops) else starts
    held["loading"] = merged(since, ends, *window)
    away = np.clip(quiet, *window)
    found = {name: length(stretches) for name, stretches in held.items()}
    found |= {"blocked": found["waiting"], "away": float(length(away) - shared(held["loading"], away).sum())}
    held["away"] = away
    # Before and after it was away it may have been at a launch for as long as it is between any two.
    lengths, near = pauses[:, 1] - pauses[:, 0], np.count_nonzero(away[:, 1] > away[:, 0])
    inside = (pauses[:, 1] > window[0]) & (pauses[:, 0] < window[1]) & (lengths < AWAY)
    pace = float(lengths[inside].max(initial=0.0))
    busy = length(merged(*np.vstack(list(held.values())).T))
    return found | {"host": max(0.0, window[1] - window[0] - busy + near * pace)}


def _pending(calls: pd.DataFrame, part: pd.DataFrame, window: tuple[float, float]) -> dict[str, float]:
    """Seconds of a window in which work of a kind ran, was due, or had been waited for.

    Copies include the host's transfer time. `queued`: launched work with a free stream.
    """
    asked = pd.Series(asked_for(calls, part, part.index.to_numpy())[0], index=part.index)
    ready, ends = _ready(part, asked), part["start"] + part["time"]
    found = {"queued": length(_cut(ready, part["start"], window))}
    full = (calls["launch"] >= 0) & (calls["time"] >= _FULL)
    stopped = union(calls[matching(calls["call"], WAITING) | full], *window)
    order = np.argsort(ends.to_numpy(), kind="stable")
    at = np.maximum(np.searchsorted(ends.to_numpy()[order], stopped[:, 1], side="right") - 1, 0)
    # The host hears a while later that the work has ended that it waited for.
    heard = np.column_stack((np.clip(ends.to_numpy()[order][at], *stopped.T), stopped[:, 1]))
    for name, mine in parts_of_work(part).items():
        begins = part["start"] if name == "tiny" else ready
        parts = [_cut(begins[mine], ends[mine], window), heard[mine.to_numpy()[order[at]]]]
        parts += [_handing(calls, part, window)] if name == "copying" else []
        found[name] = length(merged(*np.vstack(parts).T))
    return found


def _ready(part: pd.DataFrame, asked: pd.Series[float]) -> pd.Series[float]:
    """Time [s] from which each launch was requested and its stream free; else its start."""
    streams = part["stream"] if "stream" in part else pd.Series("", index=part.index)
    ended = (part["start"] + part["time"]).groupby(streams, sort=False, observed=True).cummax()
    before = ended.groupby(streams, sort=False, observed=True).shift()
    known: pd.Series[float] = before.where(before > asked, asked).fillna(part["start"])
    return known.clip(upper=part["start"])


def _cut(begins: pd.Series[float], ends: pd.Series[float], window: tuple[float, float]) -> Times:
    return merged(begins.to_numpy(), ends.to_numpy(), *window)


def _handing(calls: pd.DataFrame, part: pd.DataFrame, window: tuple[float, float]) -> Times:
    """Intervals in copying calls, and in waits right after a copy that keeps the GPU busy long."""
    ordered = calls.sort_values(["thread", "start"], kind="stable")
    copies = matching(ordered["call"], COPYING)
    long = copies & (ordered["launch"].map(part["time"]) >= SHORT)
    behind = (
        long.shift(fill_value=False)
        & ordered["thread"].eq(ordered["thread"].shift())
        & matching(ordered["call"], BLOCKING)
    )
    return union(ordered[copies | behind], *window)


def _touched(gaps: Times, calls: pd.DataFrame) -> tuple[Times, NDArray[np.int64]]:
    """Seconds of each gap inside these calls, and the row of the longest call (-1 none)."""
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
        both = np.minimum(stop[at], gaps[:, 1]) - np.maximum(begin[at], gaps[:, 0])
        held = np.where(inside, np.clip(both, 0, None), 0.0)
        row = np.where(held > most, index[at], row)
        found, most = found + held, np.maximum(most, held)
    return found, row


def _holes(gaps: Mapping[str, Any], slices: Mapping[str, Times], host: pd.DataFrame) -> tuple[Hole, ...]:
    """Idle time of each cause by host activity, the largest first.

    gaps: of _Gaps.described; slices: cause -> seconds.
    """
    spans = {kind: _ranges(host[host["kind"] == kind]) for kind in ("range", "op")}
    parts = [_of_cause(gaps, cause, seconds, host, spans) for cause, seconds in slices.items() if (seconds > 0).any()]
    if not parts:
        return ()
    every = pd.concat(parts, ignore_index=True)
    keys = every[["cause", "call", "place"]].assign(op=_alike(every["op"]), within=_alike(every["within"]))
    found = []
    for _, part in every.groupby([keys[name] for name in keys], sort=False):
        around = (str(part.groupby(side)["seconds"].sum().idxmax()) for side in ("after", "before"))
        within = ((part if part[name].nunique() == 1 else keys).loc[part.index[0], name] for name in ("op", "within"))
        cause, call = (str(part[name].iloc[0]) for name in ("cause", "call"))
        found.append(Hole(cause, float(part["seconds"].sum()), len(part), call, *map(str, within), *around))
    return tuple(sorted(found, key=lambda one: -one.seconds)[:MOST_HOLES])


def _telling(path: Sequence[str]) -> str:
    """The outermost operation, else the innermost frame: the outermost is Python's own start."""
    return next((name for name in path if not _FRAME.match(name)), path[-1])


def _alike(names: pd.Series[str]) -> pd.Series[str]:
    """Names without numbers, so that "step 10" and "step 20" are one."""
    told = {name: re.sub(r"\d+", "#", name) for name in names.unique()}
    return names.map(told)


def _of_cause(
    gaps: Mapping[str, Any], cause: str, seconds: Times, host: pd.DataFrame, spans: Mapping[str, Sequence[Range]]
) -> pd.DataFrame:
    """One row per gap with time of this cause. spans: ranges and operators of the host."""
    at = np.flatnonzero(seconds > 0)
    moment, thread = gaps["middle"][at].copy(), gaps["thread"][at].copy()
    call = np.full(len(at), "", dtype=object)
    if cause in CALLING:
        row = gaps["calls"][cause][at]
        told = row >= 0
        call[told] = host["call"].to_numpy(dtype=object)[row[told]]
        moment[told] = host["start"].to_numpy()[row[told]]
        thread[told] = host["thread"].to_numpy()[row[told]]
    elif cause == "host":
        call = _covering(host[host["kind"] == "call"], thread, moment)
    when = np.rint(moment * 1e9).astype(np.int64)
    within = ranges_of(thread, when, spans["range"])
    ops = paths(by_thread(spans["op"]), thread, when)
    named = [_telling(path.split("/")) for path in ops]
    before = gaps["before"][at]
    # Where nothing says what the host did, long holes are told apart by what ended them.
    unnamed = [cause == "away" and not name and not one for name, one in zip(named, call, strict=True)]
    columns = {"cause": cause, "seconds": seconds[at], "call": call, "op": named, "within": within}
    place = np.where(unnamed, before, "")
    rows: pd.DataFrame = pd.DataFrame({**columns, "place": place, "after": gaps["after"][at], "before": before})
    return rows


def _ranges(spans: pd.DataFrame) -> list[Range]:
    begin = np.rint(spans["start"].to_numpy(dtype="float64") * 1e9).astype(np.int64)
    end = begin + np.rint(spans["time"].to_numpy(dtype="float64") * 1e9).astype(np.int64)
    names: Sequence[str] = [str(name).replace("/", "|") for name in spans["call"]]
    rows = zip(begin.tolist(), end.tolist(), names, spans["thread"].tolist(), strict=True)
    return [Range(start, stop, name, thread) for start, stop, name, thread in rows]


def _covering(calls: pd.DataFrame, thread: NDArray[np.int64], moment: Times) -> NDArray[Any]:
    """Call in progress at each time on each thread; "" for none."""
    begun = calls.sort_values("start", kind="stable").assign(end=lambda call: call["start"] + call["time"])
    at = pd.DataFrame({"thread": thread, "start": moment}).reset_index().sort_values("start", kind="stable")
    last = pd.merge_asof(at, begun[["start", "end", "thread", "call"]], on="start", by="thread").sort_values("index")
    inside: pd.Series[str] = last["call"].astype(object).where(last["start"] < last["end"], "")
    return inside.to_numpy(dtype=object)
