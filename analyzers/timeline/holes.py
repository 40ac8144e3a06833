"""What the host did while the GPU was idle: CUDA calls, operators and ranges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collectors.kineto import ranges_of
from collectors.nsys.ranges import Range, by_thread, paths

MOST = 8
"""Kinds of holes that are kept, the largest first."""
CALLING = {"waiting": 0, "allocating": 1, "loading": 2}
"""Causes that are a call of the host: the column of the call that tells, in `Gap.calls`."""


@dataclass(frozen=True)
class Hole:
    """Idle time [s] in `count` gaps of one cause (of Budget), with what the host did.

    `call`: the CUDA call it was in or had just left; `op`: the outermost operator round that; `within`: the path of
    ranges; each "" where none was recorded. `after`, `before`: the work round most of the time.
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


def holes(gaps: Mapping[str, Any], slices: Mapping[str, NDArray[np.float64]], host: pd.DataFrame) -> tuple[Hole, ...]:
    """The idle time of each cause by what the host did, the largest first, at most MOST.

    gaps: arrays, a value a gap: `middle` [s] of what the host was late by, `thread` that launched at last (-1 unknown),
    `after` and `before` (names), `calls` (per name of CALLING the row of `host` that tells, -1 for none). slices: cause ->
    seconds of each gap. host: calls and spans, as collectors.kineto.host_frame has them; its index is the row.
    """
    parts = [part for cause, seconds in slices.items() if (part := _of_cause(gaps, cause, seconds, host)) is not None]
    if not parts:
        return ()
    every = pd.concat(parts, ignore_index=True)
    keys = every[["cause", "call", "place"]].assign(op=_alike(every["op"]), within=_alike(every["within"]))
    found = []
    for _, part in every.groupby([keys[name] for name in keys], sort=False):
        after, before = (str(part.groupby(side)["seconds"].sum().idxmax()) for side in ("after", "before"))
        op, within = (
            str(part[name].iloc[0]) if part[name].nunique() == 1 else str(keys.loc[part.index[0], name])
            for name in ("op", "within")
        )
        cause, call = str(part["cause"].iloc[0]), str(part["call"].iloc[0])
        found.append(Hole(cause, float(part["seconds"].sum()), len(part), call, op, within, after, before))
    return tuple(sorted(found, key=lambda one: -one.seconds)[:MOST])


def _alike(names: pd.Series[str]) -> pd.Series[str]:
    """The names with their numbers left out: "step 10" and "step 20" are of a kind."""
    told = {name: re.sub(r"\d+", "#", name) for name in names.unique()}
    return names.map(told)


def _of_cause(
    gaps: Mapping[str, Any], cause: str, seconds: NDArray[np.float64], host: pd.DataFrame
) -> pd.DataFrame | None:
    """A row a gap that has time of this cause; None where none has."""
    at = np.flatnonzero(seconds > 0)
    if not len(at):
        return None
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
    spans = host[host["kind"] != "call"]
    when = np.rint(moment * 1e9).astype(np.int64)
    within = ranges_of(list(zip(thread.tolist(), when.tolist(), strict=True)), _ranges(spans[spans["kind"] == "range"]))
    ops = paths(by_thread(_ranges(spans[spans["kind"] == "op"])), thread, when)
    named = [path.split("/")[0] for path in ops]
    before = gaps["before"][at]
    # Where nothing says what the host did, long holes are told apart by what ended them.
    unnamed = [cause == "away" and not name and not one for name, one in zip(named, call, strict=True)]
    rows: pd.DataFrame = pd.DataFrame(
        {
            "cause": cause,
            "seconds": seconds[at],
            "call": call,
            "op": named,
            "within": within,
            "place": np.where(unnamed, before, ""),
            "after": gaps["after"][at],
            "before": before,
        }
    )
    return rows


def _ranges(spans: pd.DataFrame) -> list[Range]:
    begin = np.rint(spans["start"].to_numpy(dtype="float64") * 1e9).astype(np.int64)
    end = begin + np.rint(spans["time"].to_numpy(dtype="float64") * 1e9).astype(np.int64)
    names: Sequence[str] = [str(name).replace("/", "|") for name in spans["call"]]
    rows = zip(begin.tolist(), end.tolist(), names, spans["thread"].tolist(), strict=True)
    return [Range(start, stop, name, thread) for start, stop, name, thread in rows]


def _covering(calls: pd.DataFrame, thread: NDArray[np.int64], moment: NDArray[np.float64]) -> NDArray[Any]:
    """Call in progress at each moment on each thread; "" for none."""
    found = np.full(len(moment), "", dtype=object)
    for one in np.unique(thread):
        mine = calls[calls["thread"] == one].sort_values("start")
        if mine.empty:
            continue
        at = np.flatnonzero(thread == one)
        begin = mine["start"].to_numpy(dtype="float64")
        last = np.searchsorted(begin, moment[at], side="right") - 1
        end = begin + mine["time"].to_numpy(dtype="float64")
        inside = (last >= 0) & (moment[at] < end[last])
        found[at[inside]] = mine["call"].to_numpy(dtype=object)[last[inside]]
    return found
