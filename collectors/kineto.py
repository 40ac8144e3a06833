"""torch.profiler's Chrome trace (Kineto JSON, plain or gzipped) -> launches or operators.

A launch has the path of the user's ranges (`record_function`, Optimizer.step#...) open on the calling thread, found by
the call's correlation id. Copies of ranges on the GPU's track are skipped. Ranks of one program, a trace each, are put
on one clock.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collectors import MARK, Format
from collectors.caveat import SLOWED, Caveat
from collectors.errors import CollectError
from collectors.frame import build, host_of, role_of, set_host
from collectors.nsys.ranges import Range, attributed, by_thread, paths
from collectors.operations import of_launches, told

WORK = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
CALLS = ("cuda_runtime", "cuda_driver")
_BEFORE = dict(zip(("Kernel", "Memcpy", "Memset", "Runtime", "Operator"), (*WORK, CALLS[0], "cpu_op"), strict=True))
_US = 1e-6
LONG = 20e-6
"""Seconds from which an operator (or a Python function, if recorded) can explain idle time."""
_SPANS = {"user_annotation": "range", "cpu_op": "op", "python_function": "op"}
_NOW = {one: one for one in (*WORK, *CALLS, *_SPANS)} | _BEFORE
"""Categories that are read -> their names since torch 1.11."""
_MARK, _BLOCK = b'"traceEvents"', 1 << 20
_PIECE = 8 << 20
_BEGIN = re.compile(_MARK + rb"\s*:\s*\[")
_BETWEEN = re.compile(rb'\}\s*,(?=\s*\{\s*")')
RAN_ALONG = Caveat(
    "torch's profiler slowed the host's launches",
    "idle time before launches is overestimated; other shares are underestimated",
    "time a step with the program's own clock, without the profiler, or record it with nsys",
    SLOWED,
)
_ROUND = re.compile("CompiledFunction|Torch-Compiled|## Call Compiled|Optimizer|ProfilerStep|autograd::engine")
"""Events that enclose many operations and are none themselves."""


_Table = dict[str, NDArray[Any]]


class _Args(msgspec.Struct, gc=False):
    """Arguments of an event that are read; as they stand where not all are looked at."""

    correlation: Any = None
    external: Any = msgspec.field(name="External id", default=None)
    device: Any = 0
    stream: Any = ""
    bytes: Any = math.nan
    grid: msgspec.Raw = msgspec.Raw()
    block: msgspec.Raw = msgspec.Raw()
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw())
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw())
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=msgspec.Raw())
    values: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=msgspec.Raw())


class _Event(msgspec.Struct, gc=False):
    """An event; of other phases and categories nothing else is looked at."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = math.nan
    dur: Any = math.nan
    args: _Args | None = None


class _Trace(msgspec.Struct):
    events: list[_Event] = msgspec.field(name="traceEvents", default_factory=list)
    devices: Any = msgspec.field(name="deviceProperties", default=())
    base: int = msgspec.field(name="baseTimeNanoseconds", default=0)


_AS_TRACE, _AS_LIST = msgspec.json.Decoder(_Trace), msgspec.json.Decoder(list[_Event])
_NO_ARGS = _Args()


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path, "rb")) if packed else path.open("rb")


def sniff(head: str, path: Path) -> bool:
    """Whether a file is a Chrome trace, plain or gzipped."""
    try:
        with _opened(path) as stream:
            first = stream.read(_BLOCK)
            blocks = chain([b"", first], iter(lambda: stream.read(_BLOCK), b""))
            return first.lstrip().startswith(b"{") and any(_MARK in one + two for one, two in pairwise(blocks))
    except (OSError, EOFError, zlib.error):
        return False


def read(path: str | os.PathLike[str], **ranks: str | os.PathLike[str]) -> pd.DataFrame:
    """Launches frame, or operators of a CPU trace; raises CollectError for a damaged file.

    ranks: traces of the program's other ranks.
    """
    frames = {key.replace("rank", "rank "): _read(Path(one)) for key, one in {"rank0": path, **ranks}.items()}
    worked = {name: one for name, one in frames.items() if "origin" in one.attrs}
    return _together(worked) if ranks and worked else frames["rank 0"]


def _together(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Ranks of a program, by the names of their processes, as one frame by start."""
    begin, work, hosts, count = min(one.attrs["origin"] for one in frames.values()), [], [], 0
    for name, one in frames.items():
        later, host = (one.attrs["origin"] - begin) * 1e-9, host_of(one)
        work.append(one.assign(start=one["start"] + later, process=name))
        if host is not None:
            launch = host["launch"].where(host["launch"] < 0, host["launch"] + count)
            hosts.append(host.assign(start=host["start"] + later, launch=launch, process=name))
        count += len(one)
    every = pd.concat(work, ignore_index=True).sort_values("start", kind="stable")
    place, host = pd.Series(range(count), index=every.index), pd.concat(hosts, ignore_index=True)
    host["launch"] = host["launch"].map(place).fillna(-1).astype(int)
    found: pd.DataFrame = every.assign(launch=range(count)).reset_index(drop=True)
    found.attrs = {"caveats": [RAN_ALONG]}
    set_host(found, host)
    return found


def _read(file: Path) -> pd.DataFrame:
    """One trace; attrs: `origin`, the zero of its clock [ns since 1970]."""
    try:
        try:
            host, work, devices, base = _columns(_pieces(file))
        except msgspec.DecodeError:
            host, work, devices, base = _columns([_whole(file)])
        if len(work["cat"]):
            frame = _frame(host, work, devices)
            frame.attrs["origin"] = base + int(_ns(work["ts"][0]))
            return frame
        if "cpu_op" in host["cat"]:
            return _operators(host)
    except (OSError, EOFError, zlib.error, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CollectError(f"{file}: {error}", fix="the trace is cut or damaged: export it again") from error
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise CollectError(f"{file}: an event without {error}", fix="export the trace again") from error
    raise CollectError(
        f"{file}: no GPU work and no operators of torch.profiler in this Chrome trace",
        fix="profile with ProfilerActivity.CPU and CUDA, and let the work end inside the profiler",
    )


def _pieces(path: Path) -> Iterator[_Trace]:
    """A trace in pieces, cut between events; raises DecodeError where that is impossible.

    A cut inside an event or a text leaves a piece that is no list of events, so it is never taken for one.
    """
    with _opened(path) as stream:
        held, begun = b"", False
        while block := stream.read(_PIECE):
            held += block
            if not begun and (mark := _BEGIN.search(held)):
                begun = True
                yield _AS_TRACE.decode(held[: mark.end()] + b"]}")
                held = held[mark.end() :]
            cuts = [one.span() for one in _BETWEEN.finditer(held, max(0, len(held) - _BLOCK))] if begun else []
            if cuts:
                yield _Trace(_AS_LIST.decode(b"[" + held[: cuts[-1][0] + 1] + b"]"))
                held = held[cuts[-1][1] :]
        yield _AS_TRACE.decode(b'{"traceEvents":[' + held if begun else held)


def _whole(path: Path) -> _Trace:
    """A trace in one piece: one that is no strict JSON (NaN), or has odd events."""
    with _opened(path) as stream:
        found = json.loads(stream.read())
    if not isinstance(found, dict):
        raise CollectError(f"{path}: not a Chrome trace", fix="give the file of torch.profiler's export_chrome_trace")
    every = (one for one in found.get("traceEvents", ()) if isinstance(one, dict))
    events = [one for one in every if one.get("ph") == "X" and one.get("cat") in _NOW]
    return _AS_TRACE.decode(msgspec.json.encode({**found, "traceEvents": events}))


def _columns(trace: Iterable[_Trace]) -> tuple[_Table, _Table, list[Any], int]:
    """Host events in the file's order, GPU work by start, devices, base of the clock [ns]."""
    devices, pieces, shared, base = list[Any](), list[_Table](), dict[Any, Any](), 0
    for piece in trace:
        devices, base = [*devices, *piece.devices], base or piece.base
        pieces.append(_table([one for one in piece.events if one.ph == "X" and one.cat in _NOW], shared))
    every = {key: np.concatenate([one[key] for one in pieces]) for key in pieces[0]}
    right = np.isfinite(every["ts"]) & (every["dur"] >= 0) & (every["dur"] < math.inf)
    if not right.all():
        raise ValueError(f"a time of its own: {every['name'][right.argmin()]!r}")
    every |= {"begin": _ns(every["ts"]), "length": _ns(every["dur"])}
    works = np.isin(every["cat"], [*WORK])
    order = np.flatnonzero(works)
    order = order[np.argsort(every["ts"][order], kind="stable")]
    host, work = ({key: values[at] for key, values in every.items()} for at in (~works, order))
    for key, of in (("name", every), ("pid", every), ("tid", host), ("args", work)):
        if None in of[key]:
            raise KeyError(key)
    return host | {"tid": host["tid"].astype(np.int64)}, work, devices, base


def _table(events: Sequence[_Event], shared: dict[Any, Any]) -> _Table:
    args = [one.args or _NO_ARGS for one in events]
    columns = {key: [getattr(one, key) for one in events] for key in ("name", "pid", "tid", "ts", "dur")}
    columns |= {key: [getattr(one, key) for one in args] for key in ("correlation", "external", "device", "stream")}
    columns |= {key: [_triple(bytes(getattr(one, key))) for one in args] for key in ("grid", "block")}
    columns["cat"] = [_NOW[one.cat] for one in events]
    # A name with a slash is one range, not two.
    columns["name"] = [
        str(name).removeprefix(MARK).replace("/", "|") if cat == "user_annotation" else name
        for name, cat in zip(columns["name"], columns["cat"], strict=True)
    ]
    columns["args"] = [None if one.args is None else True for one in events]
    columns["bytes"] = [one.bytes for one in args]
    columns["op"] = [
        _inputs(name, bytes(one.dims), bytes(one.types), bytes(one.strides), bytes(one.values))
        if cat == "cpu_op"
        else ""
        for name, cat, one in zip(columns["name"], columns["cat"], args, strict=True)
    ]
    for key in ("name", "pid"):
        columns[key] = list(map(shared.setdefault, columns[key], columns[key]))
    return {
        key: np.array(values, dtype=float if key in ("ts", "dur", "bytes") else object)
        for key, values in columns.items()
    }


@lru_cache(maxsize=65536)
def _triple(value: bytes) -> str:
    found = msgspec.json.decode(value) if value else None
    return ",".join(map(str, found)) if isinstance(found, list) else ""


@lru_cache(maxsize=65536)
def _inputs(name: str, *fields: bytes) -> str:
    """`op` of an operator by Input Dims, Input type, Input Strides and Concrete Inputs."""
    return told(name, *(msgspec.json.decode(one) if one else () for one in fields))


def _frame(host: _Table, work: _Table, listed: Sequence[Any]) -> pd.DataFrame:
    calling = np.isin(host["cat"], CALLS)
    called, origin = np.flatnonzero(calling), work["ts"][0]
    called = called[np.argsort(host["ts"][called], kind="stable")]
    caller = dict(zip(host["correlation"][called], called.tolist(), strict=True)) | {None: -1}
    made = np.array([caller.get(one, -1) for one in work["correlation"]], dtype=np.int64)
    thread, time = (np.append(host[key], -1)[made] for key in ("tid", "begin"))
    devices = {int(one["id"]): one for one in listed if "id" in one}
    # Kernels of AMD count devices otherwise than the list does; where all are of one product it does not matter.
    alike = next(iter(devices.values())) if len({one.get("name") for one in devices.values()}) == 1 else {}
    numbers = [int(one) for one in work["device"]]
    owners = {one: devices.get(one, alike) for one in set(numbers)}
    names = {number: str(one.get("name", number)) for number, one in owners.items()}
    ccs = {key: f"{one['computeMajor']}.{one['computeMinor']}" for key, one in owners.items() if "computeMajor" in one}
    lanes = list(zip(numbers, work["stream"], strict=True))
    streams = {one: f"{one[0]}:{one[1]}" for one in set(lanes)}
    operation, call = _operations(host, work, called, thread, time)
    columns = {
        "range": ranges_of(thread, time, _ranges(host, host["cat"] == "user_annotation")),
        "kernel": [str(one) for one in work["name"]],
        "start": (work["ts"] - origin) * _US,
        "time": work["dur"] * _US,
        "stream": [streams[one] for one in lanes],
        "process": _processes(host, work, made),
        "kind": [WORK[one] for one in work["cat"]],
        "device": [names[one] for one in numbers],
        "cc": [ccs.get(one, "") for one in numbers],
        **{name: work[name] for name in ("grid", "block", "bytes")},
        **({"op": operation, "call": call} if any(operation) else {}),
    }
    frame: pd.DataFrame = build(columns, tool="kineto", caveats=_caveats(host))
    order = np.concatenate((called, np.flatnonzero(~calling)))
    set_host(frame, host_frame(_rows(host, order), work["correlation"].tolist(), int(_ns(origin))))
    return frame


def _rows(host: _Table, order: NDArray[Any]) -> _Table:
    """Columns of host_frame."""
    kinds = {**dict.fromkeys(CALLS, "call"), **_SPANS}
    keys = {"call": "name", "start": "begin", "time": "length", "thread": "tid", "launch": "correlation"}
    return {"kind": np.array([kinds[one] for one in host["cat"][order]])} | {
        name: host[key][order] for name, key in keys.items()
    }


def _operations(
    host: _Table, work: _Table, called: NDArray[Any], thread: NDArray[Any], time: NDArray[Any]
) -> tuple[list[str], list[int]]:
    """`op` and `call` of each piece of work, by the external id of what launched it."""
    ops = np.flatnonzero(host["cat"] == "cpu_op").tolist()
    named = dict(zip(host["external"][ops], ops, strict=True))
    rounds = {one for one in set(host["name"][ops]) if _ROUND.match(str(one))}
    known = {number: at for number, at in named.items() if number and host["name"][at] not in rounds}
    ids = work["external"].tolist()
    if ids == work["correlation"].tolist():
        # There the external id of GPU work is its own correlation.
        spans = _ranges(host, np.array([*known.values()], dtype=np.int64), [*known])
        inner = [path.rpartition("/")[2] for path in paths(by_thread(spans), thread, time)]
        ids = [int(number) if number else None for number in inner]
    launched = [
        tuple(one) for one in zip(*(host[key][called] for key in ("name", "correlation", "external")), strict=True)
    ]
    kernels = np.where(work["cat"] == "kernel", work["correlation"], np.array(None)).tolist()
    return of_launches(kernels, launched, {number: host["op"][at] for number, at in known.items()}, ids)


def _operators(host: _Table) -> pd.DataFrame:
    """One row per operator call on the CPU; `time`: its own, without called operators.

    Calls are laid end to end inside their outermost one, so they do not overlap and fill its time.
    """
    order = np.flatnonzero(np.isin(host["cat"], ("cpu_op", "user_annotation")))
    order = order[np.lexsort((-host["dur"][order], host["ts"][order], host["tid"][order]))]
    cats, names, threads, begins, lengths = (host[key][order] for key in ("cat", "name", "tid", "begin", "length"))
    works = cats == "cpu_op"
    own, top, around = lengths.copy(), np.arange(len(order)), list[int]()
    above, inside = np.full(len(order), -1), np.zeros(len(order), dtype=np.int64)
    for at in range(len(order)):
        while around and (threads[at] != threads[around[-1]] or begins[at] >= begins[around[-1]] + lengths[around[-1]]):
            around.pop()
        if around:
            own[around[-1]] -= lengths[at]
            inside[around[-1]] += 1
            above[at] = around[-1]
            top[at] = top[around[-1]] if works[around[-1]] else at
        around.append(at)
    # As torch counts: a call whose one callee has its name is one call with it.
    for at in range(len(order) - 1, -1, -1):
        if above[at] >= 0 and inside[above[at]] == 1 and names[at] == names[above[at]]:
            own[above[at]] += own[at]
            works[at] = False
    before = np.cumsum(np.where(works, own, 0)) - np.where(works, own, 0)
    origin, starts = begins.min(), begins[top] + before - before[top]
    columns = {
        "range": ranges_of(threads[works], begins[works], _ranges(host, order[cats == "user_annotation"])),
        "kernel": [str(one) for one in names[works]],
        "start": (starts[works] - origin) * 1e-9,
        "time": own[works] * 1e-9,
        "stream": [str(one) for one in threads[works].tolist()],
        "process": [str(one) for one in host["pid"][order][works]],
        "kind": "operator",
    }
    frame: pd.DataFrame = build(columns, tool="kineto", caveats=_caveats(host)[1:])
    set_host(frame, host_frame(_rows(host, order), [], int(origin)))
    return frame


def _processes(host: _Table, work: _Table, made: NDArray[Any]) -> list[str]:
    """Process of each piece of work: of its call, else of its stream, or the only one."""
    lanes = list(zip(work["pid"].tolist(), work["stream"].tolist(), strict=True))
    hosts = {one: str(one) for one in set(host["pid"].tolist())}
    asked = [hosts[host["pid"][at]] if at >= 0 else "" for at in made.tolist()]
    owners = {lane: process for lane, process in zip(lanes, asked, strict=True) if process}
    only = next(iter(hosts.values())) if len(set(hosts.values())) == 1 else ""
    return [process or owners.get(lane) or only or str(lane[0]) for lane, process in zip(lanes, asked, strict=True)]


def host_frame(events: Mapping[str, Any], launched: Sequence[Any], origin: int) -> pd.DataFrame:
    """Host events: call, start and time [s], thread, launch (row, -1 for none), kind.

    events: columns kind, call (name), start and time [ns], thread, and launch (correlation of a call). kind: "call" (CUDA),
    "range" (the user's), "op" (an operator, from LONG on), "short" (below LONG, if it launched or the program has no
    launches).
    launched: the correlation of each row; origin [ns]: zero of the clock.
    """
    row_of: dict[Any, int] = {}
    for row, correlation in enumerate(launched):
        if correlation:
            row_of.setdefault(correlation, row)  # a graph's launch has many
    found = pd.DataFrame(events, columns=["kind", "call", "start", "time", "thread", "launch"])
    found["launch"] = [row_of.get(one, -1) for one in found["launch"].tolist()]
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


def ranges_of(thread: NDArray[np.int64], time: NDArray[np.int64], ranges: Sequence[Range]) -> list[str]:
    """Range path of each call (thread, time [ns]), else of the only thread with an open range."""
    return attributed(ranges, thread, time)[0] if ranges and len(time) else [""] * len(time)


def _ranges(host: _Table, at: NDArray[Any], names: Sequence[Any] = ()) -> list[Range]:
    """Host events as ranges, under other names if given."""
    begins, lengths, threads = (host[key][at].tolist() for key in ("begin", "length", "tid"))
    rows = zip(begins, lengths, names or host["name"][at], threads, strict=True)
    return [Range(begin, begin + length, str(name), thread) for begin, length, name, thread in rows]


def _ns(microseconds: Any) -> Any:
    return np.rint(microseconds * 1000).astype(np.int64)


def _caveats(host: _Table) -> list[Caveat]:
    if len(set(host["pid"][host["cat"] == "cpu_op"].tolist())) > 1:
        return [RAN_ALONG]
    fix = "record each process, or use Nsight Systems for a whole picture"
    return [RAN_ALONG, Caveat("torch's profiler times the Python process itself, without its children", "", fix)]


FORMAT = Format("kineto", sniff, read, role_of)
