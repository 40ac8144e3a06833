"""The reports of `nsys stats`, recognised by their headers, as typed frames in SI units.

Every report is one entry of REPORTS: header cell (without its unit, lower case) -> column and type. Old names
and headers (2020, 2021, 2022.4) and new ones (2023.1 on) lead to the same columns; the report's file name is
never read.
Types: time [s], bytes [B], rate [B/s], share (fraction 0..1), count (float64, NaN = none), text, id (text of
a number), dims ("x,y,z").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

_CELL = re.compile(r"\s*(.*?)\s*(?:\(([^()]*)\))?\s*")

TIME_UNITS = {
    "ns": 1e-9,
    "nsec": 1e-9,
    "us": 1e-6,
    "usec": 1e-6,
    "μs": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "msec": 1e-3,
    "s": 1.0,
    "sec": 1.0,
}
# nsys counts in powers of 1000: a copy of 65536 B prints 0.066 MB.
_BYTE_UNITS = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1024.0, "MiB": 1024.0**2}
_RATE_UNITS = {"B/s": 1.0, "KB/s": 1e3, "MB/s": 1e6, "MBps": 1e6, "GB/s": 1e9, "GBps": 1e9}
_UNITS: Mapping[str, Mapping[str, float]] = {"time": TIME_UNITS, "bytes": _BYTE_UNITS, "rate": _RATE_UNITS}


class Field(NamedTuple):
    """A column of a report: its name here, its type, and the factor to SI (NaN where no unit is given)."""

    column: str
    type: str
    factor: float


def _stats(kind: str = "time") -> dict[str, tuple[str, str]]:
    names = {
        "mean": ("avg", "average"),
        "median": ("med", "median"),
        "min": ("min", "minimum"),
        "max": ("max", "maximum"),
        "sd": ("stddev",),
    }
    return {old: (column, kind) for column, olds in names.items() for old in olds}


_SUM = {"time": ("share", "share"), "total time": ("total", "time"), **_stats()}
_WHO = {"pid": ("process", "id"), "tid": ("thread", "id")}
_SHAPE = {"gridxyz": ("grid", "dims"), "blockxyz": ("block", "dims")}
_TREE = {
    "lvl": ("level", "count"),
    "numchild": ("children", "count"),
    "rangeid": ("id", "id"),
    "parentid": ("parent", "id"),
    "rangestack": ("stack", "text"),
}
_ORIG = {"orig start": ("range_start", "time"), "orig duration": ("range_time", "time")}

REPORTS: dict[str, dict[str, tuple[str, str]]] = {
    "gpu_trace": {
        "start": ("start", "time"),
        "duration": ("time", "time"),
        "corrid": ("correlation", "id"),
        "grdx": ("grid_x", "count"),
        "grdy": ("grid_y", "count"),
        "grdz": ("grid_z", "count"),
        "blkx": ("block_x", "count"),
        "blky": ("block_y", "count"),
        "blkz": ("block_z", "count"),
        "reg/trd": ("registers", "count"),
        "stcsmem": ("static_shared", "bytes"),
        "dymsmem": ("dynamic_shared", "bytes"),
        "bytes": ("bytes", "bytes"),
        "throughput": ("rate", "rate"),
        "thru": ("rate", "rate"),
        "srcmemkd": ("source", "text"),
        "dstmemkd": ("destination", "text"),
        "device": ("device", "text"),
        "ctx": ("context", "id"),
        "greenctx": ("green_context", "id"),
        "strm": ("stream", "id"),
        "name": ("name", "text"),
    },
    "kern_exec_trace": {
        "api start": ("api_start", "time"),
        "api dur": ("api_time", "time"),
        "queue start": ("queue_start", "time"),
        "queue dur": ("queue_time", "time"),
        "kernel start": ("start", "time"),
        "kernel dur": ("time", "time"),
        "total dur": ("total", "time"),
        **_WHO,
        "devid": ("device", "id"),
        "api function": ("api", "text"),
        **_SHAPE,
        "kernel name": ("name", "text"),
    },
    "kern_sum": {**_SUM, "instances": ("instances", "count"), **_SHAPE, "name": ("name", "text")},
    "gpu_sum": {
        **_SUM,
        "instances": ("instances", "count"),
        "category": ("category", "text"),
        "operation": ("name", "text"),
    },
    "mem_time_sum": {
        **_SUM,
        "count": ("instances", "count"),
        "operations": ("instances", "count"),
        "operation": ("name", "text"),
        "name": ("name", "text"),
    },
    "mem_size_sum": {
        "total": ("total", "bytes"),
        "count": ("instances", "count"),
        "operations": ("instances", "count"),
        **_stats("bytes"),
        "operation": ("name", "text"),
        "name": ("name", "text"),
    },
    "api_sum": {
        **_SUM,
        "num calls": ("calls", "count"),
        "calls": ("calls", "count"),
        "name": ("name", "text"),
    },
    "api_trace": {
        "start": ("start", "time"),
        "duration": ("time", "time"),
        "name": ("name", "text"),
        "result": ("result", "text"),
        "corrid": ("correlation", "id"),
        "correlation id": ("correlation", "id"),
        **_WHO,
        "t-pri": ("priority", "id"),
        "thread name": ("thread_name", "text"),
    },
    "nvtx_sum": {
        **_SUM,
        "instances": ("instances", "count"),
        "style": ("style", "text"),
        "range": ("range", "text"),
    },
    "nvtx_pushpop_trace": {
        "start": ("start", "time"),
        "end": ("end", "time"),
        "duration": ("time", "time"),
        "durchild": ("child_time", "time"),
        "durnonchild": ("own_time", "time"),
        "name": ("range", "text"),
        **_WHO,
        **_TREE,
        "nametree": ("tree", "text"),
    },
    "nvtx_kern_sum": {
        "nvtx range": ("range", "text"),
        "style": ("style", "text"),
        **_WHO,
        "nvtx inst": ("range_instances", "count"),
        "kern inst": ("instances", "count"),
        "total time": ("total", "time"),
        **_stats(),
        "kernel name": ("name", "text"),
    },
    "nvtx_gpu_proj_trace": {
        "name": ("range", "text"),
        "projected start": ("start", "time"),
        "projected duration": ("time", "time"),
        **_ORIG,
        "style": ("style", "text"),
        **_WHO,
        "numgpuops": ("operations", "count"),
        **_TREE,
    },
    "nvtx_gpu_proj_sum": {
        "range": ("range", "text"),
        "style": ("style", "text"),
        "total proj time": ("total", "time"),
        "total range time": ("range_total", "time"),
        "range instances": ("range_instances", "count"),
        **{f"proj {old}": new for old, new in _stats().items()},
        "total gpu ops": ("operations", "count"),
        "avg gpu ops": ("mean_operations", "count"),
        "avg range lvl": ("level", "count"),
        "avg num child": ("children", "count"),
    },
    "kern_exec_sum": {
        **_WHO,
        "devid": ("device", "id"),
        "count": ("instances", "count"),
        "qcount": ("queued", "count"),
        **{
            f"{letter}{old}": (f"{part}_{new[0]}", "time")
            for letter, part in (("t", "total"), ("a", "api"), ("q", "queue"), ("k", "kernel"))
            for old, new in _stats().items()
        },
        "api name": ("api", "text"),
        "kernel name": ("name", "text"),
    },
}

_NEEDS: dict[str, frozenset[str]] = {
    "gpu_trace": frozenset({"start", "time", "grid_x", "block_x", "name"}),
    "kern_exec_trace": frozenset({"api_start", "start", "time", "name"}),
    "kern_sum": frozenset({"total", "instances", "name"}),
    "gpu_sum": frozenset({"total", "instances", "category", "name"}),
    "mem_time_sum": frozenset({"share", "total", "instances", "name"}),
    "mem_size_sum": frozenset({"total", "instances", "name"}),
    "api_sum": frozenset({"total", "calls", "name"}),
    "api_trace": frozenset({"start", "time", "name", "correlation"}),
    "nvtx_sum": frozenset({"total", "instances", "range"}),
    "nvtx_pushpop_trace": frozenset({"start", "end", "time", "range"}),
    "nvtx_kern_sum": frozenset({"range", "instances", "total", "name"}),
    "nvtx_gpu_proj_trace": frozenset({"range", "start", "time", "operations"}),
    "nvtx_gpu_proj_sum": frozenset({"range", "total", "range_instances"}),
    "kern_exec_sum": frozenset({"instances", "queued", "name"}),
}

# Reports that print the same header: only the name of the script tells them apart.
TWINS = {
    "osrt_sum": "api_sum",
    "osrtsum": "api_sum",
    "nvtx_pushpop_sum": "nvtx_sum",
    "nvtxppsum": "nvtx_sum",
    "nvtx_startend_sum": "nvtx_sum",
    "openacc_sum": "api_sum",
    "vulkan_api_sum": "api_sum",
}


@lru_cache(maxsize=4096)
def kind_of(header: tuple[str, ...]) -> str:
    """The report a header belongs to, "" when to none: all its cells are known there and what it needs is in
    it."""
    bases = [_base(cell) for cell in header]
    if len(set(bases)) != len(bases):
        return ""
    for kind, cells in REPORTS.items():
        if set(bases) <= cells.keys() and _NEEDS[kind] <= {cells[base][0] for base in bases}:
            return kind
    return ""


def needs(kind: str) -> frozenset[str]:
    """The columns every row of a report has."""
    return _NEEDS[kind]


def is_report(header: tuple[str, ...]) -> bool:
    """Whether a header is that of a known report."""
    return bool(kind_of(header))


def fields(header: tuple[str, ...], kind: str, titled: str = "") -> tuple[list[Field], list[str]]:
    """The columns of a header and the doubts about their units (the names of the columns without one).

    titled: the unit in the title of the table (2020-21), which goes for what has none of its own. A time without unit
    takes that of another time column of its header, else the ns that nsys means by default, which is then doubted;
    sizes and rates without unit get NaN.
    """
    cells = [_CELL.fullmatch(cell) for cell in header]
    units = {m[2] for m in cells if m and m[2] in TIME_UNITS}
    shared = units.pop() if len(units) == 1 else ""
    result, unsure = [], []
    for cell, match in zip(header, cells, strict=True):
        column, type_ = REPORTS[kind][_base(cell)]
        unit = (match[2] or "") if match else ""
        if not unit and titled in _UNITS.get(type_, ()):
            unit = titled
        if type_ == "time" and not unit:
            unit = shared or "ns"
            unsure += [] if shared else [column]
        factor = _UNITS[type_].get(unit, float("nan")) if type_ in _UNITS else 1.0
        if type_ in ("bytes", "rate") and factor != factor:
            unsure.append(column)
        result.append(Field(column, type_, 0.01 if type_ == "share" else factor))
    return result, unsure


def _base(cell: str) -> str:
    match = _CELL.fullmatch(cell)
    return match[1].lower() if match else cell.lower()
