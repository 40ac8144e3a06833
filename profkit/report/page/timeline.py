"""Timeline of a program's page: host and GPU activity as columns of integers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzers.timeline.idle import asked_for
from collectors.operations import parsed
from profkit.report.names import short_names
from profkit.report.page.data import named_first, page_name
from profkit.study.study import Study
from roofline.figure.style import BANDS

MOST_LAUNCHES, MOST_HOST = 40_000, 30_000
"""Most pieces of GPU work on a page (the first ones, about 20 bytes each), most host events (the longest ones)."""
MOST_THREADS = 6
MOST_RANGES = 600
_TICKS = 1e8
"""Times are multiples of 10 ns."""
_KINDS = ("range", "op", "short", "call")


def timeline_of(study: Study, part: int = 1) -> dict[str, Any] | None:
    """GPU work and host events over time; None for implementations. part: share of the limits."""
    frame, host = study.captured.timeline, study.host
    if frame is None or study.manifest.impls or "start" not in frame or not (frame["time"] > 0).any():
        return None
    row = np.flatnonzero(frame["start"].notna() & (frame["time"] > 0) & (not study.of_operators))
    whole, row = len(row), row[np.argsort(frame["start"].to_numpy()[row], kind="stable")][: MOST_LAUNCHES // part]
    if not len(row) and (host is None or host.empty):
        return None
    known = frame.iloc[row]
    asked, lane, lanes = _asked(study, host)
    start, length = (known[name].to_numpy() for name in ("start", "time"))
    if len(row):
        begin, end = np.nanmin(np.append(asked[row], start[0])), (start + length).max()
    elif host is not None:
        begin, end = host["start"].min(), (host["start"] + host["time"]).max()
    at = np.rint((start - begin) * _TICKS).astype(np.int64)
    late = np.where(np.isnan(asked[row]), -1, np.maximum(0, at - _ticks(asked[row] - begin)))
    return {
        "start": np.diff(at, prepend=0).tolist(),
        "length": np.maximum(1, _ticks(length)).tolist(),
        "late": late.tolist(),
        "thread": lane[row].tolist(),
        **_works(study, known),
        "ranges": _ranges(known, begin),
        "host": _host(host, begin, end, lanes, MOST_HOST // part),
        # Edges of the steady steps of the first device.
        "steady": [round((at - begin) * _TICKS) for one in [*study.budgets.values()][:1] for at in one.edges],
        "end": round((end - begin) * _TICKS),
        "bands": BANDS,
        "hidden": whole - len(row),
        "whole": whole,
    }


def _ticks(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(np.nan_to_num(seconds) * _TICKS).astype(np.int64)


def _works(study: Study, known: pd.DataFrame) -> dict[str, Any]:
    """Kernel, lane, grid, block, range and operator of each piece of GPU work."""
    codes, names = known["kernel"].factorize()
    # Device and stream, as far as there are several of them.
    places: list[Any] = [
        f"{name} " + known[name].astype(str) for name in ("process", "device", "stream") if name in known
    ]
    several = [one for one in places if one.nunique() > 1] or [known["device"].astype(str)]
    lanes, lane_names = several[0].str.cat(several[1:], sep=", ").factorize()
    # As in the table, where those of the kernels come first.
    counted = study.kernels["kernel"] if len(study.kernels) else ()
    short = short_names([*named_first(study), *map(str, counted), *map(str, names)])
    paths, ranges = known["range"].astype(str).factorize()
    op = known["op"].astype(str) if "op" in known else pd.Series("", known.index)
    facts = pd.DataFrame({"kernel": codes, "grid": known["grid"], "block": known["block"], "op": op})
    what = facts.groupby([*facts], sort=False, observed=True).ngroup()
    told = facts[~what.duplicated()]
    asked = [(one.name, one.shapes()) for one in map(parsed, told["op"])]
    return {
        "what": what.tolist(),
        "lane": lanes.tolist() if len(lane_names) > 1 else [],
        "range": paths.tolist() if len(ranges) > 1 else [],
        "whats": [
            [kernel, grid, block, *map(page_name, one)]
            for (kernel, grid, block, _), one in zip(told.astype(object).to_numpy().tolist(), asked, strict=True)
        ],
        "copy": sorted(set(codes[known["kind"].isin(("memcpy", "memset")).to_numpy()].tolist())),
        "fill": sorted(set(codes[(known["kind"] == "memset").to_numpy()].tolist())),
        "names": [short[str(name)] for name in names],
        "lanes": [str(name) for name in lane_names],
        "paths": [page_name(path) for path in ranges],
    }


def _asked(study: Study, host: pd.DataFrame | None) -> tuple[NDArray[np.float64], NDArray[np.int64], pd.Series[Any]]:
    """Start of each launch call [s] (NaN unknown), its thread's lane (-1), and event lanes."""
    count = 0 if study.captured.timeline is None else len(study.captured.timeline)
    moment, caller = np.full(count, np.nan), np.full(count, -1)
    if host is None or not len(host):
        return moment, caller, pd.Series(dtype=np.int64)
    for _, part, own in study.devices():
        calls = host if own is None else own
        row = part.index.to_numpy()
        moment[row], caller[row] = asked_for(calls[calls["kind"] == "call"], part, row)
    threads = (host["process"].astype(str) + " " if "process" in host else "") + host["thread"].astype(str)
    launching = host["launch"] >= 0
    weight = pd.DataFrame({"thread": threads, "launching": launching, "time": host["time"]}).groupby("thread").sum()
    first = weight.sort_values(["launching", "time"], ascending=False, kind="stable").index[:MOST_THREADS]
    lanes = threads.map(pd.Series(range(len(first)), index=first)).fillna(-1).astype(np.int64)
    return moment, lanes.reindex(caller).fillna(-1).to_numpy(dtype=np.int64), lanes


def _host(host: pd.DataFrame | None, begin: float, end: float, lanes: pd.Series[Any], most: int) -> dict[str, Any]:
    """Host events between two times [s], by thread and start; outer events first."""
    if host is None or not len(host):
        return {"lanes": [], "start": [], "length": [], "what": [], "whats": [], "hidden": 0}
    stop = (host["start"] + host["time"]).clip(upper=end)
    every = host.assign(lane=lanes, start=host["start"].clip(lower=begin), stop=stop)
    every = every[(every["stop"] > every["start"]) & every["kind"].isin(_KINDS)]
    named = every.drop_duplicates("lane").set_index("lane").sort_index()
    kept = every[every["lane"] >= 0]
    kept = kept.assign(length=kept["stop"] - kept["start"]).nlargest(most, "length")
    kept = kept.sort_values(["lane", "start", "length"], ascending=[True, True, False], kind="stable")
    what = kept.groupby(["kind", "call"], sort=False, observed=True).ngroup()
    told = kept[~what.duplicated()]
    at = _ticks((kept["start"] - begin).to_numpy())
    return {
        "lanes": [
            _thread(one, "process" in host and host["process"].nunique() > 1)
            for lane, one in named.iterrows()
            if lane >= 0
        ],
        "lane": kept["lane"].tolist(),
        "start": np.diff(at, prepend=0).tolist(),
        "length": np.maximum(1, _ticks(kept["stop"].to_numpy() - begin) - at).tolist(),
        "what": what.tolist(),
        "whats": [
            [_KINDS.index(kind), page_name(str(name))] for kind, name in zip(told["kind"], told["call"], strict=True)
        ],
        "hidden": len(every) - len(kept),
    }


def _thread(event: pd.Series[Any], owned: bool) -> str:
    """Name of a thread; nsys packs machine and process into the thread's number."""
    thread = int(event["thread"])
    told = str(thread % (1 << 24) if thread >> 32 > 0 else thread)
    return f"{event['process']}:{told}" if owned else told


def _ranges(frame: pd.DataFrame, begin: float) -> list[list[Any]]:
    """[name, depth, first start, last end] of launches inside one range."""
    paths = frame["range"].astype(str).to_numpy()
    starts = np.rint((frame["start"].to_numpy() - begin) * _TICKS).astype(np.int64)
    ends = starts + np.rint(frame["time"].to_numpy() * _TICKS).astype(np.int64)
    found: list[list[Any]] = []
    deepest = max((path.count("/") + 1 for path in set(paths) if path), default=0)
    for depth in range(min(deepest, 3)):
        own = np.array(["/".join(path.split("/")[: depth + 1]) if path.count("/") >= depth else "" for path in paths])
        edges = np.flatnonzero(np.concatenate(([True], own[1:] != own[:-1], [True])))
        for first, last in pairwise(edges):
            if own[first]:
                name = own[first].rsplit("/", 1)[-1]
                found.append([name, depth, int(starts[first]), int(ends[first:last].max())])
    return found[:MOST_RANGES]
