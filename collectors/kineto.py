"""torch.profiler's Chrome trace (Kineto JSON, plain or gzipped) -> launches or operators.

A launch has the path of the user's ranges (`record_function`, Optimizer.step#...) open on the calling thread, found by
the call's correlation id. Copies of ranges on the GPU's track are skipped.
"""

from __future__ import annotations

import gc
import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collectors import Format
from collectors.caveat import Caveat
from collectors.cupti import ONE_PROCESS, RAN_ALONG
from collectors.errors import CollectError
from collectors.frame import build, role_of, set_host
from collectors.nsys.ranges import Range, attributed, by_thread, paths
from collectors.operations import of_launches

WORK = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
CALLS = ("cuda_runtime", "cuda_driver")
_BEFORE = dict(zip(("Kernel", "Memcpy", "Memset", "Runtime", "Operator"), (*WORK, CALLS[0], "cpu_op"), strict=True))
_US = 1e-6
LONG = 20e-6
"""Seconds from which an operator (or a Python function, if recorded) can explain idle time."""
_SPANS = {"user_annotation": "range", "cpu_op": "op", "python_function": "op"}
_MARK, _BLOCK = b'"traceEvents"', 1 << 20
_ROUND = re.compile("CompiledFunction|Torch-Compiled|## Call Compiled|Optimizer|ProfilerStep|autograd::engine")
"""Events that enclose many operations and are none themselves."""


def sniff(head: str, path: Path) -> bool:
    """Whether a file is a Chrome trace, plain or gzipped."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as stream:
            first = stream.read(_BLOCK)
            blocks = chain([b"", first], iter(lambda: stream.read(_BLOCK), b""))
            return first.lstrip().startswith(b"{") and any(_MARK in one + two for one, two in pairwise(blocks))
    except (OSError, EOFError, zlib.error):
        return False


def read(path: str | os.PathLike[str], **_: Any) -> pd.DataFrame:
    """Launches frame, or operators of a CPU trace; raises CollectError for a damaged file."""
    file = Path(path)
    collecting = gc.isenabled()
    gc.disable()  # it would go through millions of new objects again and again
    try:
        trace = _loaded(file)
        read_in = {*WORK, *CALLS, *_SPANS}
        told = (_now(one) for one in trace.get("traceEvents", ()) if isinstance(one, dict) and one.get("ph") == "X")
        events = [one for one in told if one.get("cat") in read_in]
        if wrong := next((one for one in events if not _lasts(one)), None):
            raise ValueError(f"a time of its own: {wrong.get('name')!r}")
        work = sorted((one for one in events if one.get("cat") in WORK), key=lambda one: float(one["ts"]))
        if work:
            return _frame(trace, events, work)
        if any(one.get("cat") == "cpu_op" for one in events):
            return _operators(events)
        raise CollectError(
            f"{file}: no GPU work and no operators of torch.profiler in this Chrome trace",
            fix="profile with ProfilerActivity.CPU and CUDA, and let the work end inside the profiler",
        )
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise CollectError(f"{file}: an event without {error}", fix="export the trace again") from error
    finally:
        if collecting:
            gc.enable()


def _now(event: dict[str, Any]) -> dict[str, Any]:
    """An event with the category names of torch 1.11 and later."""
    return {**event, "cat": _BEFORE[event["cat"]]} if event.get("cat") in _BEFORE else event


def _lasts(event: Mapping[str, Any]) -> bool:
    """Whether an event has a start and a duration; 0 is valid."""
    begin, length = float(event["ts"]), float(event["dur"])
    return math.isfinite(begin) and 0 <= length < math.inf


def _loaded(path: Path) -> Mapping[str, Any]:
    try:
        data = path.read_bytes()
        found = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise CollectError(f"{path}: {error}", fix="the trace is cut or damaged: export it again") from error
    if not isinstance(found, dict):
        raise CollectError(f"{path}: not a Chrome trace", fix="give the file of torch.profiler's export_chrome_trace")
    return found


def _frame(trace: Mapping[str, Any], events: Sequence[dict[str, Any]], work: Sequence[dict[str, Any]]) -> pd.DataFrame:
    origin = float(work[0]["ts"])
    calls = sorted((one for one in events if one.get("cat") in CALLS), key=lambda one: float(one["ts"]))
    caller = {_correlation(one): one for one in calls}
    made = [caller.get(_correlation(one)) if _correlation(one) is not None else None for one in work]
    ranges = [_range(one, str(one["name"])) for one in events if one.get("cat") == "user_annotation"]
    devices = {int(one["id"]): one for one in trace.get("deviceProperties", ()) if "id" in one}
    # Kernels of AMD count devices otherwise than the list does; where all are of one product it does not matter.
    alike = next(iter(devices.values())) if len({one.get("name") for one in devices.values()}) == 1 else {}
    numbers = [int(one["args"].get("device", 0)) for one in work]
    owners = [devices.get(number, alike) for number in numbers]
    named = {one["args"].get("External id"): one for one in events if one.get("cat") == "cpu_op" and "args" in one}
    operations = {number: one for number, one in named.items() if number and not _ROUND.match(str(one["name"]))}
    operation, call = of_launches(work, calls, operations, _askers(work, made, operations))
    columns = {
        "range": ranges_of([(int(one["tid"]), _ns(one["ts"])) if one else (-1, -1) for one in made], ranges),
        "kernel": [str(one["name"]) for one in work],
        "start": [(float(one["ts"]) - origin) * _US for one in work],
        "time": [float(one["dur"]) * _US for one in work],
        "stream": [f"{number}:{one['args'].get('stream', '')}" for number, one in zip(numbers, work, strict=True)],
        "process": _processes(events, work, made),
        "kind": [WORK[one["cat"]] for one in work],
        "device": [str(one.get("name", number)) for one, number in zip(owners, numbers, strict=True)],
        "cc": [f"{one['computeMajor']}.{one['computeMinor']}" if "computeMajor" in one else "" for one in owners],
        "grid": [_triple(one["args"].get("grid")) for one in work],
        "block": [_triple(one["args"].get("block")) for one in work],
        "bytes": [float(one["args"].get("bytes", np.nan)) for one in work],
        **({"op": operation, "call": call} if any(operation) else {}),
    }
    frame: pd.DataFrame = build(columns, tool="kineto", caveats=_caveats(events))
    kinds = {**dict.fromkeys(CALLS, "call"), **_SPANS}
    spans = [one for one in events if one.get("cat") in _SPANS]
    rows = [
        (kinds[one["cat"]], str(one["name"]), _ns(one["ts"]), _ns(one["dur"]), int(one["tid"]), _correlation(one))
        for one in [*calls, *spans]
    ]
    host = host_frame(rows, [_correlation(one) for one in work], _ns(origin))
    set_host(frame, host)
    return frame


def _operators(events: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row per operator call on the CPU; `time`: its own, without called operators.

    Calls are laid end to end inside their outermost one, so they do not overlap and fill its time.
    """
    spans = [one for one in events if one.get("cat") in ("cpu_op", "user_annotation")]
    spans.sort(key=lambda one: (int(one["tid"]), float(one["ts"]), -float(one["dur"])))
    begins, lengths = (np.array([_ns(one[key]) for one in spans], dtype=np.int64) for key in ("ts", "dur"))
    works = np.array([one["cat"] == "cpu_op" for one in spans])
    own, top, around = lengths.copy(), np.arange(len(spans)), list[int]()
    above, inside = np.full(len(spans), -1), np.zeros(len(spans), dtype=np.int64)
    for at, one in enumerate(spans):
        while around and (
            one["tid"] != spans[around[-1]]["tid"] or begins[at] >= begins[around[-1]] + lengths[around[-1]]
        ):
            around.pop()
        if around:
            own[around[-1]] -= lengths[at]
            inside[around[-1]] += 1
            above[at] = around[-1]
            top[at] = top[around[-1]] if works[around[-1]] else at
        around.append(at)
    # As torch counts: a call whose one callee has its name is one call with it.
    for at in range(len(spans) - 1, -1, -1):
        if above[at] >= 0 and inside[above[at]] == 1 and spans[at]["name"] == spans[above[at]]["name"]:
            own[above[at]] += own[at]
            works[at] = False
    before = np.cumsum(np.where(works, own, 0)) - np.where(works, own, 0)
    origin, starts = begins.min(), begins[top] + before - before[top]
    # Ranges by profkit.annotate are marked as such.
    named = ((one, str(one["name"]).removeprefix("profkit:")) for one in spans if one["cat"] == "user_annotation")
    ranges = [_range(one, name) for one, name in named]
    told = [(one, at) for at, one in enumerate(spans) if works[at]]
    columns = {
        "range": ranges_of([(int(one["tid"]), int(begins[at])) for one, at in told], ranges),
        "kernel": [str(one["name"]) for one, _ in told],
        "start": (starts[works] - origin) * 1e-9,
        "time": own[works] * 1e-9,
        "stream": [str(one["tid"]) for one, _ in told],
        "process": [str(one["pid"]) for one, _ in told],
        "kind": "operator",
    }
    frame: pd.DataFrame = build(columns, tool="kineto", caveats=_caveats(events)[1:])
    spent = [
        (_SPANS[one["cat"]], str(one["name"]), *when, int(one["tid"]), None)
        for one, *when in zip(spans, begins.tolist(), lengths.tolist(), strict=True)
    ]
    set_host(frame, host_frame(spent, [], int(origin)))
    return frame


def _askers(
    work: Sequence[dict[str, Any]], made: Sequence[dict[str, Any] | None], operations: Mapping[Any, dict[str, Any]]
) -> list[Any]:
    """External id of the operation that launched each piece of GPU work."""
    ids = [one["args"].get("External id") for one in work]
    if any(number != one["args"].get("correlation") for number, one in zip(ids, work, strict=True)):
        return ids
    # There the external id of GPU work is its own correlation.
    spans = [_range(one, str(number)) for number, one in operations.items()]
    asked = np.array([(int(one["tid"]), _ns(one["ts"])) if one else (-1, -1) for one in made], dtype=np.int64)
    inner = [path.rpartition("/")[2] for path in paths(by_thread(spans), asked[:, 0], asked[:, 1])]
    return [int(number) if number else None for number in inner]


def _processes(
    events: Sequence[dict[str, Any]], work: Sequence[dict[str, Any]], made: Sequence[dict[str, Any] | None]
) -> list[str]:
    """Process of each piece of work: of its call, else of its stream, or the only one."""
    lanes = [(one["pid"], one["args"].get("stream")) for one in work]
    owners = {lane: str(call["pid"]) for lane, call in zip(lanes, made, strict=True) if call is not None}
    hosts = {str(one["pid"]) for one in events if one.get("cat") not in WORK}
    only = hosts.pop() if len(hosts) == 1 else ""
    return [
        str(call["pid"]) if call is not None else owners.get(lane) or only or str(lane[0])
        for lane, call in zip(lanes, made, strict=True)
    ]


def host_frame(
    events: Sequence[tuple[str, str, int, int, int, Any]], launched: Sequence[Any], origin: int
) -> pd.DataFrame:
    """Host events: call, start and time [s], thread, launch (row, -1 for none), kind.

    events: kind, name, begin [ns], length [ns], thread, and correlation of a call. kind: "call" (CUDA), "range" (the
    user's), "op" (an operator, from LONG on), "short" (below LONG, if it launched or the program has no launches).
    launched: the correlation of each row; origin [ns]: zero of the clock.
    """
    row_of: dict[Any, int] = {}
    for row, correlation in enumerate(launched):
        if correlation:
            row_of.setdefault(correlation, row)  # a graph's launch has many
    found = pd.DataFrame(events, columns=["kind", "call", "start", "time", "thread", "launch"])
    found["launch"] = [row_of.get(one[5], -1) for one in events]
    short = (found["kind"] == "op") & (found["time"] * 1e-9 < LONG)
    found.loc[short, "kind"] = "short"
    if row_of:
        found = found[~short | _launching(found)].reset_index(drop=True)
    found["start"] = (found["start"] - origin) * 1e-9
    found["time"] = found["time"] * 1e-9
    ordered: pd.DataFrame = found[["call", "start", "time", "thread", "launch", "kind"]]
    return ordered


def _launching(found: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether each event contains a launch call on its thread."""
    begin, length, launch = (found[name].to_numpy(dtype=np.int64) for name in ("start", "time", "launch"))
    holds = np.zeros(len(found), dtype=bool)
    for own in found.groupby("thread").indices.values():
        asked = np.sort(begin[own][launch[own] >= 0])
        holds[own] = np.searchsorted(asked, begin[own] + length[own]) > np.searchsorted(asked, begin[own])
    return holds


def ranges_of(calls: Sequence[tuple[int, int]], ranges: Sequence[Range]) -> list[str]:
    """Range path of each call (thread, time [ns]), else of the only thread with an open range."""
    if not ranges or not calls:
        return [""] * len(calls)
    asked = np.array(calls, dtype=np.int64)
    return attributed(ranges, asked[:, 0], asked[:, 1])[0]


def _range(event: Mapping[str, Any], name: str) -> Range:
    begin = _ns(event["ts"])
    return Range(begin, begin + _ns(event["dur"]), name, int(event["tid"]))


def _correlation(event: Mapping[str, Any]) -> Any:
    return event.get("args", {}).get("correlation")


def _ns(microseconds: Any) -> int:
    return round(float(microseconds) * 1000)


def _triple(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else ""


def _caveats(events: Sequence[dict[str, Any]]) -> list[Caveat]:
    processes = {one["pid"] for one in events if one.get("cat") == "cpu_op"}
    if len(processes) > 1:
        return [RAN_ALONG]
    fix = "record each process, or use Nsight Systems for a whole picture"
    return [RAN_ALONG, Caveat(ONE_PROCESS, "", fix, "one-process")]


FORMAT = Format("kineto", sniff, read, role_of)
