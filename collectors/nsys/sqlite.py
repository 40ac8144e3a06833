"""Read Nsight Systems' sqlite export with plain SQL; needs no nsys.

Each launch is attributed to the NVTX ranges open at its API call (correlation id -> runtime call -> thread and time;
see ranges). Tables and columns differ between versions and are looked up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from collectors.caveat import TRACE_CUT, Caveat
from collectors.errors import CollectError
from collectors.frame import build, set_host
from collectors.nsys.launches import each, moved_bytes, told
from collectors.nsys.ranges import Range, attributed
from collectors.nsys.tables import (
    ACTIVITY,
    KINDS,
    UNKNOWN,
    api_calls,
    devices_of,
    diagnostics,
    gpu_work,
    kernel_names,
    nvtx_ranges,
    open_base,
    process_of,
    program_of,
    tables_of,
    unpacked,
    work_names,
)


def sniff(head: str, path: Path) -> bool:
    """Whether a file is a sqlite export of nsys, or a damaged database."""
    if not head.startswith("SQLite format 3"):
        return False
    try:
        with open_base(path) as base:
            return bool({"StringIds", "META_DATA_EXPORT", "NVTX_EVENTS"} & tables_of(base))
    except CollectError:
        return True


def read_sqlite(path: str | Path) -> pd.DataFrame:
    """Launches frame: kernels, copies, memsets by start; times in s, `range` from NVTX.

    Launches of threads without ranges (autograd's backward) get the only open range on another thread of the process.
    attrs: "caveats", "report" = "sqlite", "devices", "program" (its file). Raises CollectError for a damaged database
    or no GPU work.
    """
    path = Path(path)
    with open_base(path) as base:
        tables = tables_of(base)
        work = gpu_work(base, tables)
        if not len(work["start"]):
            raise CollectError(
                f"{path}: no GPU work: {ACTIVITY}KERNEL, MEMCPY and MEMSET are absent or empty",
                fix="record with `nsys profile -t cuda,nvtx`; an nsys older than the driver records none",
            )
        calls = api_calls(base, tables)
        ranges = nvtx_ranges(base, tables)
        caveats: list[Caveat] = []
        where = _attribute(work, calls, ranges, caveats)
        caveats += _gaps(work, calls, ranges)
        caveats += diagnostics(base, tables)
        devices = devices_of(base, tables)
        frame = frame_of(
            work, work_names(work, kernel_names(base, tables)), where, devices, caveats, tool="nsys", report="sqlite"
        )
        frame.attrs["program"] = program_of(base, tables)
    if calls is not None:
        set_host(frame, _host(work, calls, ranges))
    return frame


def _host(work: dict[str, Any], calls: dict[str, Any], ranges: Sequence[Range]) -> pd.DataFrame:
    """Host events (see collectors.kineto.host_frame): CUDA calls and closed ranges."""
    # The first piece of work of each call: a graph's launch has many.
    keys, first = np.unique(work["call"], return_index=True)
    at = np.searchsorted(keys, calls["key"]).clip(max=len(keys) - 1)
    closed = [one for one in ranges if one.end is not None]
    begin = np.array([one.start for one in closed], dtype=np.int64)
    took = np.array([(one.end or 0) - one.start for one in closed], dtype=np.int64)
    thread = np.concatenate((calls["thread"], np.array([one.thread for one in closed], dtype=np.int64)))
    host: pd.DataFrame = pd.DataFrame(
        {
            # The version of its table that a call came by says nothing to a reader.
            "call": pd.Categorical(
                [*each(calls["name"], lambda name: re.sub(r"_v\d+$", "", name)), *(one.name for one in closed)]
            ),
            "start": np.concatenate((calls["start"], begin)) / 1e9,
            "time": np.concatenate((calls["time"], took / 1e9)),
            "thread": thread,
            "launch": np.concatenate((np.where(keys[at] == calls["key"], first[at], -1), np.full(len(closed), -1))),
            "process": pd.Categorical(each(process_of(thread), str)),
            "kind": pd.Categorical(["call"] * len(calls["start"]) + ["range"] * len(closed)),
        }
    )
    return host


def _attribute(
    work: dict[str, Any], calls: dict[str, Any] | None, ranges: Sequence[Range], caveats: list[Caveat]
) -> list[str]:
    """Range path of each piece of work; `caveats` gets work that could not be attributed."""
    size = len(work["start"])
    if ranges and calls is None:
        what = "API calls were not traced, so no kernel can be attributed to a range"
        caveats.append(Caveat(what, "", "-t cuda,nvtx"))
    if not ranges or calls is None:
        return [""] * size
    key = work["call"]
    at = np.searchsorted(calls["key"], key).clip(max=len(calls["key"]) - 1)
    known = calls["key"][at] == key
    thread, time = (np.where(known, calls[name][at], -1) for name in ("thread", "start"))
    where, adopted = attributed(ranges, thread, time, process_of)
    if adopted:
        seconds = float((work["end"] - work["start"])[adopted].sum()) / 1e9
        what = "launches of threads without ranges got the range open on another thread"
        caveats.append(Caveat(what, f"{len(adopted)} launches, {seconds:.3g} s", ""))
    if not known.all():
        caveats.append(Caveat("GPU work without its API call has no range", f"{int((~known).sum())} of {size}", ""))
    return where


def _gaps(work: dict[str, Any], calls: dict[str, Any] | None, ranges: Sequence[Range]) -> list[Caveat]:
    """Caveats about missing work: a trace cut short, whole CUDA graphs, ranges left open."""
    found: list[Caveat] = []
    older = "the nsys is older than the driver, or the capture was stopped: use a newer nsys"
    end = int(work["end"].max())
    if calls is not None:
        end = max(end, int(calls["start"].max()))
        if lost := _lost_launches(work, calls):
            much = f"{lost} launch calls after the last recorded kernel have no GPU work"
            found.append(Caveat("the GPU trace stops before the program does", much, older, TRACE_CUT))
    if ranges and end < min(one.start for one in ranges):
        much = f"{len(ranges)} ranges have no GPU work"
        found.append(Caveat("the GPU trace ends before the first NVTX range starts", much, older, TRACE_CUT))
    unclosed = sum(1 for one in ranges if one.end is None)
    if unclosed:
        found.append(Caveat("NVTX ranges that were never closed count to the end", f"{unclosed} ranges", "pop them"))
    whole = work["kind"] == KINDS.index("graph")
    if whole.any():
        much = f"{int(whole.sum())} launches, {(work['end'] - work['start'])[whole].sum() / 1e9:.3g} s"
        what = "CUDA graphs were traced whole: their kernels are not listed"
        found.append(Caveat(what, much, "record with --cuda-graph-trace=node"))
    return found


def _lost_launches(work: dict[str, Any], calls: dict[str, Any]) -> int:
    """Number of launch calls without GPU work after the last one with GPU work."""
    launch = each(calls["name"], lambda name: "x" * ("Launch" in name and "HostFunc" not in name)) == "x"
    recorded = np.isin(calls["key"], work["call"])
    if not (launch & recorded).any():
        return 0
    last = calls["start"][launch & recorded].max()
    return int((launch & ~recorded & (calls["start"] > last)).sum())


def _shape(sides: Sequence[int]) -> str:
    return "" if min(sides) < 0 else ",".join(map(str, sides))


def frame_of(
    work: dict[str, Any],
    names: Any,
    where: Any,
    devices: dict[int, dict[str, Any]],
    caveats: list[Caveat],
    *,
    tool: str,
    report: str,
) -> pd.DataFrame:
    """Launches frame of GPU work (tables.gpu_work) with its names and ranges."""
    used = sorted({unpacked(one, "stream")[1] for one in np.unique(work["stream"]).tolist()})
    moved = np.isin(work["kind"], (1, 2))
    sizes = np.where(work["grid"] == UNKNOWN, np.nan, work["grid"])[moved]
    registers = work["block"] & 0x7FFF

    def gpu(number: int) -> dict[str, Any]:
        return devices.get(unpacked(number, "stream")[1], {})

    def stream(number: int) -> str:
        own, device = unpacked(number, "stream")
        return f"{device}:{own}" if len(used) > 1 else str(own)

    return build(
        {
            "range": where,
            "kernel": names,
            "grid": told(np.where(moved, UNKNOWN, work["grid"]), lambda one: _shape(unpacked(one, "grid"))),
            "block": told(work["block"], lambda one: _shape(unpacked(one, "block")[:3])),
            "device": told(work["stream"], lambda one: gpu(one).get("name", str(unpacked(one, "stream")[1]))),
            "cc": told(work["stream"], lambda one: gpu(one).get("cc", "")),
            "kind": told(work["kind"], lambda kind: ("kernel", "memcpy", "memset", "kernel")[kind]),
            "start": work["start"] / 1e9,
            "process": told(work["call"] >> 32, str),
            "stream": told(work["stream"], stream),
            "time": (work["end"] - work["start"]) / 1e9,
            "registers": np.where(registers == 0x7FFF, np.nan, registers),
            **moved_bytes(moved, sizes),
        },
        tool=tool,
        caveats=caveats,
        report=report,
        devices=[devices[one] for one in used if one in devices],
    )
