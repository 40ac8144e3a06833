"""Reports of `nsys stats`, recognised by their headers, not by file names.

REPORTS: header cell (without its unit, lower case) -> column and type, for names of 2020 to 2022.4 and of 2023.1 on.
Types: time [s], bytes [B], rate [B/s], share (fraction 0..1), count (float64, NaN = none), text, id (text of a
number), dims ("x,y,z"), "" for an ignored column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

_CELL = re.compile(r"\s*(.*?)\s*(?:\(([^()]*)\))?\s*")

TIME_UNITS = {
    **dict.fromkeys(("ns", "nsec"), 1e-9),
    **dict.fromkeys(("us", "usec", "μs", "µs"), 1e-6),
    **dict.fromkeys(("ms", "msec"), 1e-3),
    **dict.fromkeys(("s", "sec"), 1.0),
}
# nsys counts in powers of 1000: a copy of 65536 B prints 0.066 MB.
_BYTE_UNITS = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1024.0, "MiB": 1024.0**2}
_RATE_UNITS = {"B/s": 1.0, "KB/s": 1e3, "MB/s": 1e6, "MBps": 1e6, "GB/s": 1e9, "GBps": 1e9}
_UNITS: Mapping[str, Mapping[str, float]] = {"time": TIME_UNITS, "bytes": _BYTE_UNITS, "rate": _RATE_UNITS}


class Field(NamedTuple):
    """Column of a report: our name, type, and factor to SI (NaN without a unit)."""

    column: str
    type: str
    factor: float


_STATS = ("avg", "average", "med", "median", "min", "minimum", "max", "maximum", "stddev")
"""Unused columns that are still read, as their cells show the file's decimal mark and damage."""
_SUM = {"time": ("share", "share"), "total time": ("total", "time"), **{cell: (cell, "time") for cell in _STATS}}
_UNREAD = ("corrid", "stcsmem", "dymsmem", "srcmemkd", "dstmemkd", "ctx", "greenctx")
_SIDES = {
    f"{of}{side}": (f"{what}_{side}", "count") for of, what in (("grd", "grid"), ("blk", "block")) for side in "xyz"
}
_NAME, _COUNT = ("name", "text"), ("instances", "count")
_PROCESS = {"pid": ("process", "id"), "tid": ("thread", "id")}
_SHAPE = {"gridxyz": ("grid", "dims"), "blockxyz": ("block", "dims")}

REPORTS: dict[str, dict[str, tuple[str, str]]] = {
    "gpu_trace": {
        "start": ("start", "time"),
        "duration": ("time", "time"),
        **dict.fromkeys(_UNREAD, ("", "")),
        **_SIDES,
        "reg/trd": ("registers", "count"),
        "bytes": ("bytes", "bytes"),
        "throughput": ("rate", "rate"),
        "thru": ("rate", "rate"),
        "device": ("device", "text"),
        "strm": ("stream", "id"),
        "name": _NAME,
    },
    "kern_sum": {**_SUM, "instances": _COUNT, **_SHAPE, "name": _NAME},
    "gpu_sum": {**_SUM, "instances": _COUNT, "category": ("category", "text"), "operation": _NAME},
    "mem_time_sum": {**_SUM, "count": _COUNT, "operations": _COUNT, "operation": _NAME, "name": _NAME},
    "nvtx_kern_sum": {
        "nvtx range": ("range", "text"),
        "style": ("style", "text"),
        **_PROCESS,
        "nvtx inst": ("range_instances", "count"),
        "kern inst": _COUNT,
        **{cell: field for cell, field in _SUM.items() if cell != "time"},
        "kernel name": _NAME,
    },
}
NEEDS: dict[str, frozenset[str]] = {
    "gpu_trace": frozenset({"start", "time", "stream", "name"}),
    "kern_sum": frozenset({"total", "instances", "name"}),
    "gpu_sum": frozenset({"total", "instances", "category", "name"}),
    "mem_time_sum": frozenset({"share", "total", "instances", "name"}),
    "nvtx_kern_sum": frozenset({"range", "instances", "total", "name"}),
}
"""Columns in every row of a report."""
_WITHOUT_LAUNCHES = {
    "api_sum": re.compile(r"time,total time,(num )?calls,.*name$"),
    "kern_exec_trace": re.compile(r"api start,api dur,queue start"),
    "kern_exec_sum": re.compile(r"pid,tid,devid,count,qcount"),
    "mem_size_sum": re.compile(r"total,(count|operations),av"),
    "api_trace": re.compile(r"start,duration,name,result"),
    "nvtx_sum": re.compile(r"time,total time,instances,.*,range$"),
    "nvtx_pushpop_trace": re.compile(r"start,end,duration,durchild"),
    "nvtx_gpu_proj_trace": re.compile(r"name,projected start"),
    "nvtx_gpu_proj_sum": re.compile(r"range,style,total proj time"),
}
"""Reports without launches: recognised to describe a file, not read; headers without units."""


@lru_cache(maxsize=4096)
def kind_of(header: tuple[str, ...]) -> str:
    """Report of a header; "" if it lacks a required cell or has an unknown one."""
    bases = [_base(cell) for cell in header]
    if len(set(bases)) != len(bases):
        return ""
    for kind, cells in REPORTS.items():
        if set(bases) <= cells.keys() and NEEDS[kind] <= {cells[base][0] for base in bases}:
            return kind
    return next((kind for kind, cells in _WITHOUT_LAUNCHES.items() if cells.match(",".join(bases))), "")


def fields(header: tuple[str, ...], kind: str, titled: str = "") -> tuple[list[Field], list[str]]:
    """Columns of a header, and the names of those without a unit.

    titled: unit in the title of the table (2020-21). A time without unit takes that of another time column, else ns
    with a caveat; sizes and rates without unit get NaN.
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
