"""Typed nsys reports -> the launches frame.

In a summary `time` is the mean over `instances`, so the total is time * instances.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from collectors.caveat import RANGES_OVERLAP, Caveat
from collectors.frame import build

SUMMARIES = ("kern_sum", "mem_time_sum", "gpu_sum", "nvtx_kern_sum")

_DEVICE = re.compile(r"(.*) \((\d+)\)")
_MEMOP = re.compile(r"\[(?:CUDA |Unified Memory |CUDA Unified Memory )(memcpy|memset)\b", re.IGNORECASE)
_COARSE = 0.5e3  # sizes are printed in MB with three decimals


def launches(kind: str, frame: pd.DataFrame, *, coded: bool = False) -> pd.DataFrame:
    """Launches frame of one report frame; `kind` is gpu_trace or one of SUMMARIES.

    coded: texts of a gpu_trace as categories. attrs: "caveats", "report", for a trace also "devices".
    """
    if kind == "gpu_trace":
        made = _gpu_trace(frame, coded)
    else:
        made = (_nvtx_kern_sum if kind == "nvtx_kern_sum" else _summary)(frame)
    made.attrs["caveats"] = [*frame.attrs.get("caveats", []), *made.attrs["caveats"]]
    made.attrs["report"] = kind
    return made


def memop_kind(name: str) -> str:
    """ "memcpy", "memset" or "kernel" by an operation's name in nsys or nvprof."""
    found = _MEMOP.match(name)
    return found[1].lower() if found else "kernel"


def moved_bytes(moved: Any, sizes: Any) -> dict[str, Any]:
    """Column "bytes" from the sizes [B] of the rows in `moved`; none without such rows."""
    moved = np.asarray(moved, dtype=bool)
    if not moved.any():
        return {}
    column = np.full(len(moved), np.nan)
    column[moved] = sizes
    return {"bytes": column}


def each(keys: Any, make: Callable[[Any], str]) -> Any:
    """Object array of make(key) for each key, with one call per distinct key."""
    return np.asarray(told(keys, make), dtype=object)


def told(keys: Any, make: Callable[[Any], str]) -> pd.Categorical:
    """Like `each`, as categories."""
    whole = isinstance(keys, pd.Series) and isinstance(keys.dtype, pd.CategoricalDtype)
    codes, distinct = (keys.cat.codes.to_numpy(), keys.cat.categories) if whole else pd.factorize(np.asarray(keys))
    return categories(codes, [make(key) for key in distinct.tolist()])


def categories(codes: Any, texts: Sequence[str]) -> pd.Categorical:
    """Text of each row's code as categories, "" for a negative code; `texts` may repeat."""
    last = [""] if len(codes) and codes.min() < 0 else []
    places, distinct = pd.factorize(np.array([*texts, *last], dtype=object))
    return pd.Categorical.from_codes(places.astype(np.int32)[codes], pd.Index(distinct, dtype=object))


def shapes(x: Any, y: Any, z: Any) -> pd.Categorical:
    """ "x,y,z" for each row, "" if one of them is NaN or negative."""
    sides = [np.asarray(one) for one in (x, y, z)]
    key = np.zeros(len(sides[0]), dtype=np.int64)
    for side in sides:
        own, distinct = pd.factorize(side)
        key *= len(distinct) + 1  # three times 2 million distinct sides fit 63 bits
        key += own
    codes, distinct = pd.factorize(key)
    row = np.empty(len(distinct), dtype=np.int64)
    row[codes] = np.arange(len(codes))
    sizes = zip(*(side[row].tolist() for side in sides), strict=True)
    known = (f"{a:.0f},{b:.0f},{c:.0f}" if a >= 0 and b >= 0 and c >= 0 else "" for a, b, c in sizes)
    return categories(codes, [*known])


def device_columns(labels: pd.Series, streams: pd.Series) -> tuple[Any, Any, list[dict[str, str]]]:
    """Product names, streams and the list of devices from labels like "Tesla T4 (0)".

    With several devices a stream reads "index:stream", to keep streams of two GPUs apart.
    """
    known = {one: match.groups() if (match := _DEVICE.fullmatch(one)) else (one, one) for one in labels.unique()}
    devices = [{"name": name, "index": index} for label, (name, index) in known.items() if label]
    names = told(labels, lambda label: known[label][0])
    if len(devices) > 1:
        streams = each(labels, lambda label: known[label][1]) + ":" + each(streams, str)
    return names, streams, devices


def _gpu_trace(frame: pd.DataFrame, coded: bool) -> pd.DataFrame:
    kinds = told(frame["name"], memop_kind)
    columns: dict[str, Any] = {
        "kernel": frame["name"],
        "grid": shapes(*(_sides(frame, f"grid_{axis}") for axis in "xyz")),
        "block": shapes(*(_sides(frame, f"block_{axis}") for axis in "xyz")),
        "kind": kinds,
        "start": frame["start"],
        "time": frame["time"],
    }
    devices: list[dict[str, str]] = []
    if "device" in frame and "stream" in frame:
        columns["device"], columns["stream"], devices = device_columns(frame["device"], frame["stream"])
    if "registers" in frame:
        columns["registers"] = frame["registers"]
    moved = kinds != "kernel"
    columns |= moved_bytes(moved, _sizes(frame[moved]))
    return build(columns, tool="nsys", coded=coded, devices=devices)


def _sides(frame: pd.DataFrame, column: str) -> Any:
    """Move one dimension of the grids or blocks out of the frame, to free its memory."""
    return frame.pop(column) if column in frame else np.full(len(frame), np.nan)


def _sizes(part: pd.DataFrame) -> Any:
    """Bytes moved [B]; printed MB have three decimals, so small sizes come from rate * time."""
    sizes = part["bytes"].to_numpy(dtype=np.float64) if "bytes" in part else np.full(len(part), np.nan)
    if "rate" not in part:
        return np.where(sizes == 0, np.nan, sizes)
    fine = np.round(part["rate"].to_numpy() * part["time"].to_numpy())
    near = np.abs(fine - sizes) <= _COARSE + 1e-4 * fine
    return np.where(near, fine, np.where(sizes == 0, np.nan, sizes))


def _summary(frame: pd.DataFrame) -> pd.DataFrame:
    # `cuda_gpu_kern_sum:nvtx-name` prints "range/kernel".
    split = {name: _split(name) for name in frame["name"].unique()}
    names = frame["name"].map({name: kernel for name, (_, kernel) in split.items()})
    counts = frame["instances"].to_numpy(dtype=np.float64)
    columns: dict[str, Any] = {
        "range": [split[name][0] for name in frame["name"]],
        "kernel": names,
        "kind": told(names, memop_kind),
        "instances": counts.astype(np.int64),
        "time": frame["total"] / counts,
    }
    for key in ("grid", "block", "process", "device"):
        if key in frame:
            columns[key] = frame[key]
    return build(columns, tool="nsys")


def _split(name: str) -> tuple[str, str]:
    before, slash, after = name.rpartition("/")
    whole = all(after.count(left) == after.count(right) for left, right in ("<>", "()", "[]"))
    if not slash or not before or not after or not whole or before.endswith("operator"):
        return "", name
    return before, after


def _nvtx_kern_sum(frame: pd.DataFrame) -> pd.DataFrame:
    made = _summary(frame)
    made["range"] = pd.Series(frame["range"].to_numpy(), dtype=made["range"].dtype)
    made.attrs["caveats"] = [
        Caveat(
            "nvtx_kern_sum counts a kernel in every enclosing range, and twice on a shared border",
            "times of ranges do not add up; totals use the range with most of each kernel, as lower bounds",
            "export sqlite: `nsys export --type sqlite REPORT`",
            RANGES_OVERLAP,
        ),
    ]
    return made


def together(frames: Sequence[pd.DataFrame], kinds: Sequence[str]) -> pd.DataFrame:
    """Merge launches frames of one export: launches renumbered, attrs merged."""
    if len(frames) == 1:
        return frames[0]
    joined = pd.concat(frames, ignore_index=True)
    columns = {str(name): joined[name] for name in joined.columns if name not in ("launch", "tool")}
    for name in columns.keys() & {"process", "stream"}:
        columns[name] = columns[name].fillna("")
    names = ("caveats", "devices")
    caveats, devices = ([one for frame in frames for one in frame.attrs.get(name, ())] for name in names)
    return build(columns, tool="nsys", caveats=caveats, report="+".join(dict.fromkeys(kinds)), devices=devices)
