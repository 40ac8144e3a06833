"""trtexec exports of TensorRT 7 to 10 as a launches frame, one row a layer.

--exportProfile gives the times, --exportLayerInfo bytes, FLOP and the precision (modelled, see layers), --exportTimes
the latency that the layers are checked against. Printed output (--dumpProfile, or the summary) is read by log.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from collectors import Format, Groups, Role, head_of
from collectors.caveat import Caveat
from collectors.errors import CollectError
from collectors.frame import build
from collectors.trtexec.json import load
from collectors.trtexec.layers import COLUMNS, Layer, layer
from collectors.trtexec.log import Log, Table, is_log, read_logs

_FAR = 0.05
# What tells TensorRT's files apart, near their beginning.
_PARTS = (
    ("layers", re.compile(r'^\s*\{\s*"Layers"\s*:')),
    (
        "profile",
        re.compile(
            r'^\s*\[\s*\{\s*"count"\s*:|"(averageMs|timeMs)"\s*:|=== Profile \(\d+ iter|&&&& \w+ TensorRT\.trtexec'
        ),
    ),
    ("times", re.compile(r'"latencyMs"\s*:')),
)


@dataclass(frozen=True, eq=False)
class Profile:
    """--exportProfile: iterations, and per layer its name and mean time [s], NaN for none."""

    count: int
    names: list[str]
    mean: Any
    caveats: list[Caveat] = field(default_factory=list)


def sniff(head: str, path: Path) -> bool:
    """Whether a file is JSON of trtexec, or what trtexec printed."""
    del path
    if is_log(head):
        return True
    start = head.lstrip()[:1]
    if start == "[":
        return bool(re.search(r'"(averageMs|timeMs|latencyMs)"\s*:|^\s*\[\s*\{\s*"count"\s*:', head))
    return start == "{" and bool(re.search(r'^\s*\{\s*"(Layers|Bindings)"\s*:', head))


def read(
    path: str | Path,
    layers: str | Path | None = None,
    *,
    times: str | Path | None = None,
    partial: bool = False,
) -> pd.DataFrame:
    """The layers of an engine as a launches frame: time is the mean of one inference [s].

    path: --exportProfile, printed output, or --exportLayerInfo alone (times NaN). layers, times: the other exports.
    partial: read the cut table of a log as far as it goes, with a caveat. attrs: "caveats", "report". The names of
    several runs stand in `range`. Raises CollectError naming the file and the line.
    """
    if is_log(head_of(Path(path))):
        return _printed(Path(path), layers, times, partial)
    content = load(Path(path))
    if _is_layer_info(content):
        found = _layers(Path(path), content)
        untimed = Caveat("layer information alone has no times", f"{len(found)} layers", "--exportProfile")
        profile = Profile(0, [one.name for one in found], np.full(len(found), np.nan), [untimed])
        frame = join(profile, found)
    else:
        profile = _profile(Path(path), content)
        frame = join(profile, read_layers(layers) if layers is not None else None)
    return _against(frame, median_latency(Path(times)) if times is not None else math.nan)


def _printed(path: Path, layers: str | Path | None, times: str | Path | None, partial: bool) -> pd.DataFrame:
    """The frame of a log, `range` = the run where it holds several."""
    runs = read_logs(path, partial=partial)
    if len(runs) == 1:
        return _of_run(runs[0], layers, times)
    if layers is not None or times is not None:
        lines = ", ".join(str(one.line) for one in runs)
        raise CollectError(
            f"{path}: {len(runs)} runs, which begin at lines {lines}, and exports of one beside them",
            fix="give the log alone, or the one run they belong to in a file of its own",
        )
    frames = [_of_run(one).assign(range=one.name) for one in runs]
    frame: pd.DataFrame = pd.concat(frames, ignore_index=True)
    frame["launch"] = np.arange(len(frame))
    caveats = [
        msgspec.structs.replace(caveat, about=run.name)
        for run, one in zip(runs, frames, strict=True)
        for caveat in one.attrs["caveats"]
    ]
    several = Caveat(
        "several runs of trtexec stand in one file: what is added up over ranges, and its shares, are of all of them",
        f"{len(runs)} runs",
        "read each range by itself, or `profkit compare RUN:RANGE RUN:RANGE`",
    )
    frame.attrs = {"report": "log", "caveats": [several, *caveats]}
    return frame


def _of_run(log: Log, layers: str | Path | None = None, times: str | Path | None = None) -> pd.DataFrame:
    """The layers of one run of a log, or one row for the whole network where it lists none."""
    table = log.table or _whole(log)
    profile = Profile(table.count, table.names, np.array(table.means), log.caveats)
    frame = join(profile, read_layers(layers) if layers is not None and log.table is not None else None)
    frame.attrs["report"] = "log"
    for name, value in (("device", log.device), ("cc", log.cc)):
        if value:
            frame[name] = pd.Series([value] * len(frame), dtype=frame[name].dtype)
    if log.table is None:
        return frame
    latency = log.summary.get("latency", {}).get("median", math.nan)
    return _against(frame, median_latency(Path(times)) if times is not None else latency)


def _whole(log: Log) -> Table:
    """One row for all layers: the GPU's time of an inference, or the latency."""
    by = "compute" if "compute" in log.known else "latency"
    one = log.summary[by]
    mean = one.get("mean", one.get("median", math.nan))
    log.caveats.append(
        Caveat(
            "the log lists no layers: one row stands for the whole network",
            "GPU compute time" if by == "compute" else "latency, copies included",
            "run trtexec with --dumpProfile --separateProfileRun",
        )
    )
    return Table(0, ["whole network"], [mean], mean)


def read_layers(path: str | Path) -> list[Layer]:
    """--exportLayerInfo as modelled layers, in order."""
    return _layers(Path(path), load(Path(path)))


def median_latency(path: Path) -> float:
    """The median of --exportTimes [s]."""
    content = load(path)
    if not isinstance(content, list) or not content or "latencyMs" not in content[0]:
        raise CollectError(f"{path}: expected iteration times with latencyMs", fix="export with --exportTimes")
    values = []
    for at, row in enumerate(content, 1):
        if not isinstance(row, Mapping) or "latencyMs" not in row:
            raise CollectError(f"{path}, iteration {at}: no latencyMs", fix="export again")
        values.append(_seconds(path, f"iteration {at}, latencyMs", row["latencyMs"]))
    return float(np.median(values))


def join(profile: Profile, layer_info: Sequence[Layer] | None) -> pd.DataFrame:
    """The frame of a profile with bytes and FLOP of its layers, matched in order, else by name."""
    caveats = [*profile.caveats, *_profile_caveats(profile)]
    layers = _matched(profile.names, layer_info, caveats)
    columns: dict[str, Any] = {"kernel": profile.names, "kind": "layer", "time": profile.mean}
    if layer_info is not None:
        columns |= _modelled(layers)
        caveats += _layer_caveats(layers, profile.mean)
    frame = build(columns, tool="trtexec", caveats=caveats)
    frame.attrs["report"] = "profile"
    return frame


def _is_layer_info(content: Any) -> bool:
    return isinstance(content, Mapping) and isinstance(content.get("Layers"), list)


def _layers(path: Path, content: Any) -> list[Layer]:
    if not _is_layer_info(content):
        raise CollectError(f'{path}: expected an object with "Layers"', fix="export with --exportLayerInfo")
    for at, info in enumerate(content["Layers"]):
        if not isinstance(info, str) and not (isinstance(info, Mapping) and "Name" in info):
            raise CollectError(f"{path}, layer {at + 1}: expected a name or an object with Name", fix="export again")
    if not content["Layers"]:
        raise CollectError(f"{path}: no layers", fix="export again with --profilingVerbosity=detailed")
    return [layer(info) for info in content["Layers"]]


def _profile(path: Path, content: Any) -> Profile:
    rows = [row for row in content if isinstance(row, Mapping) and "name" in row] if isinstance(content, list) else []
    if not rows:
        raise CollectError(f"{path}: {_what(content)}, no layers with times", fix="export with --exportProfile")
    counts = [row["count"] for row in content if isinstance(row, Mapping) and "count" in row and "name" not in row]
    if len(rows) + len(counts) != len(content) or len(counts) > 1:
        raise CollectError(f"{path}: an entry is neither a layer nor the count", fix="export again")
    count = counts[0] if counts and isinstance(counts[0], int) else 0
    mean = []
    for at, row in enumerate(rows):
        where = f"layer {at + 1} ({str(row['name'])[:40]})"
        if "averageMs" not in row and not ("timeMs" in row and count):
            raise CollectError(f"{path}, {where}: neither averageMs nor timeMs with a count", fix="export again")
        total = row["averageMs"] if "averageMs" in row else row["timeMs"] / count
        mean.append(_seconds(path, f"{where}, averageMs", total))
    return Profile(count, [str(row["name"]) for row in rows], np.array(mean))


def _what(content: Any) -> str:
    first = content[0] if isinstance(content, list) and content else content
    if isinstance(first, Mapping) and "latencyMs" in first:
        return f"times of {len(content)} iterations (pass it as times=, or import it beside the profile)"
    return "no profile of trtexec"


def _seconds(path: Path, where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise CollectError(f"{path}, {where}: expected milliseconds, found {str(value)[:30]!r}", fix="export again")
    return float(value) * 1e-3


def _matched(names: Sequence[str], layer_info: Sequence[Layer] | None, caveats: list[Caveat]) -> list[Layer]:
    if layer_info is None:
        return [Layer(name) for name in names]
    if [one.name for one in layer_info] == list(names):
        return list(layer_info)
    waiting: dict[str, list[Layer]] = {}
    for one in layer_info:
        waiting.setdefault(one.name, []).append(one)
    found = [waiting[name].pop(0) if waiting.get(name) else None for name in names]
    lost = sum(one is None for one in found)
    if lost == len(names):
        raise CollectError(
            "no layer of the profile is in the layer information", fix="give both exports of the same engine"
        )
    if lost:
        caveats.append(Caveat("layers of the profile are not in the layer information", f"{lost} of {len(names)}", ""))
    return [one if one is not None else Layer(name) for one, name in zip(found, names, strict=True)]


def _modelled(layers: Sequence[Layer]) -> dict[str, Any]:
    """dram_* and FLOP columns from the model; FLOP in the column of a layer's pipe alone."""
    read_ = np.array([one.bytes_in + one.bytes_weights for one in layers])
    written = np.array([one.bytes_out for one in layers])
    columns: dict[str, Any] = {"dram_bytes": read_ + written, "dram_read": read_, "dram_write": written}
    for compute, column in COLUMNS.items():
        values = np.array([one.flop if one.compute == compute else math.nan for one in layers])
        if not np.isnan(values).all():
            columns[column] = values
    return columns


def _profile_caveats(profile: Profile) -> list[Caveat]:
    found = []
    if profile.count == 1:
        found.append(Caveat("times are of a single iteration", "count 1", "profile longer: --iterations, --duration"))
    zero = int((profile.mean == 0).sum())
    if zero:
        found.append(Caveat("layers with zero time do no work of their own", f"{zero} of {len(profile.names)}", ""))
    return found


def _layer_caveats(layers: Sequence[Layer], mean: Any) -> list[Caveat]:
    plain = sum(not one.type for one in layers)
    if plain == len(layers):
        return [
            Caveat(
                "the layer information holds names only: no bytes, no FLOP",
                f"{plain} layers",
                "build with --profilingVerbosity=detailed",
            )
        ]
    found = [Caveat("bytes and FLOP are modelled from the layers' shapes, not counted", f"{len(layers)} layers", "")]
    opaque = np.array([one.opaque for one in layers], dtype=bool)
    if opaque.any():
        share = float(np.nansum(mean[opaque]) / np.nansum(mean)) if np.nansum(mean) else 0.0
        much = f"{int(opaque.sum())} layers, {share:.0%} of the time"
        found.append(Caveat("fused layers (Myelin, ForeignNode) hide what they compute", much, ""))
    guessed = sum(one.by == "format" for one in layers)
    if guessed:
        found.append(Caveat("precision taken from tensor formats, no tactic is named", f"{guessed} layers", ""))
    unknown = sum(one.flop == one.flop and not one.compute for one in layers)
    if unknown:
        found.append(Caveat("layers with FLOP whose pipe is not known are under no ceiling", f"{unknown} layers", ""))
    return found


def _against(frame: pd.DataFrame, latency: float) -> pd.DataFrame:
    """The frame, with a caveat where the layers do not add up to the median latency [s]."""
    ratio = float(frame["time"].sum()) / latency
    if abs(ratio - 1) > _FAR:
        frame.attrs["caveats"].append(
            Caveat(
                "the layers do not add up to the latency: they were timed apart, without graph or overlap",
                f"sum / median latency = {ratio:.3f}",
                "take shares from the layers, the time from the latency",
            )
        )
    return frame


def _companions(heads: Mapping[Path, str]) -> Groups:
    """A profile with its layers and times, of several by the beginning of their names."""
    parts = {path: next((name for name, mark in _PARTS if mark.search(head)), "") for path, head in heads.items()}
    profiles = [path for path, part in parts.items() if part == "profile"]
    leaders = profiles or [path for path, part in parts.items() if part == "layers"]
    groups: Groups = {path: {} for path, part in parts.items() if path in leaders or not part or not leaders}
    for path, part in parts.items():
        if path not in groups:
            groups[max(leaders, key=lambda one: _alike(one.name, path.name))][part] = path
    return groups


def _alike(a: str, b: str) -> int:
    """How many letters two names share at their beginning."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


FORMAT = Format(
    "trtexec",
    sniff,
    read,
    lambda frame: Role("layers"),
    says={
        "en": "times: trtexec's, mean of one inference; FLOP and bytes are modelled from the layers' shapes",
        "zh": "时间：trtexec 所测，为单次推理的平均；FLOP 与字节由各层形状推得",
    },
    companions=_companions,
)
