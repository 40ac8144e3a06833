"""trtexec exports of TensorRT 7 to 10 as a launches frame, one row per layer.

--exportProfile gives the times, --exportLayerInfo bytes, FLOP and the precision (modelled, see layers), --exportTimes
the latency to check the layers against. Printed output (--dumpProfile, or the summary) is read by log.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pandas as pd

from collectors import Format, Groups, Role, head_of, text_of
from collectors.caveat import Caveat
from collectors.errors import CollectError
from collectors.frame import build
from collectors.trtexec.layers import Layer, layer
from collectors.trtexec.log import Run, is_log, read_logs

_FAR = 0.05
# What tells TensorRT's files apart, near their beginning.
_PROFILE = r'^\s*\[\s*\{\s*"count"\s*:|"(averageMs|timeMs)"\s*:|=== Profile \(\d+ iter|&&&& \w+ TensorRT\.trtexec'
_PARTS = {"layers": r'^\s*\{\s*"Layers"\s*:', "profile": _PROFILE, "times": r'"latencyMs"\s*:'}
_Milliseconds = Annotated[float, msgspec.Meta(ge=0)]


class _Entry(msgspec.Struct, rename="camel"):
    """Entry of --exportProfile (the count, then one per layer) or of --exportTimes."""

    count: int = 0
    name: str | None = None
    average_ms: _Milliseconds | None = None
    latency_ms: _Milliseconds | None = None


def sniff(head: str, path: Path) -> bool:
    """Whether a file is trtexec's JSON or printed output."""
    if is_log(head) or re.match(r'\s*\{\s*"(Layers|Bindings)"\s*:', head):
        return True
    return head.lstrip().startswith("[") and any(re.search(mark, head) for mark in _PARTS.values())


def read(path: str | Path, layers: str | Path | None = None, *, times: str | Path | None = None) -> pd.DataFrame:
    """Layers of an engine as a launches frame: time is the mean of one inference [s].

    path: --exportProfile, printed output, or --exportLayerInfo alone (times NaN). layers, times: the other exports.
    attrs: "caveats", "report". Names of several runs are in `range`. Raises CollectError with file and line.
    """
    path = Path(path)
    info = None if layers is None else _layers(Path(layers), _load(Path(layers)))
    latency = math.nan if times is None else _median_latency(Path(times))
    if is_log(head_of(path)):
        runs = read_logs(path)
        if len(runs) == 1:
            return _of_run(runs[0], info, latency)
        if info is not None or times is not None:
            lines = ", ".join(str(one.line) for one in runs)
            raise CollectError(
                f"{path}: {len(runs)} runs (at lines {lines}), with exports of one run",
                fix="give only the log, or one run in its own file with its exports",
            )
        return _of_runs(runs)
    content = _load(path)
    if isinstance(content, dict):
        info = _layers(path, content)
        untimed = Caveat("layer information alone has no times", f"{len(info)} layers", "--exportProfile")
        return _frame([one.name for one in info], np.full(len(info), np.nan), info, [untimed])
    entries = _entries(path, content)
    named = [one for one in entries if one.name is not None]
    if not named:
        what = "no profile of trtexec"
        if entries and entries[0].latency_ms is not None:
            what = f"times of {len(entries)} iterations (pass it as times=, or import it beside the profile)"
        raise CollectError(f"{path}: {what}, no layers with times", fix="export with --exportProfile")
    mean = [math.nan if one.average_ms is None else one.average_ms * 1e-3 for one in named]
    if np.isnan(mean).any():
        at = int(np.isnan(mean).argmax())
        raise CollectError(f"{path}, layer {at + 1} ({named[at].name}): no averageMs", fix="export again")
    single = Caveat("times are of a single iteration", "count 1", "profile longer: --iterations, --duration")
    frame = _frame([str(one.name) for one in named], np.array(mean), info, [single] if entries[0].count == 1 else [])
    return _against(frame, latency)


def _load(path: Path) -> Any:
    """Parse a JSON file; names in it may hold control characters."""
    text = text_of(path, strict=True)
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        fix = "trtexec writes names unescaped: rename the layer of that line, or escape the quotes in the file"
        if error.msg == "Extra data":
            fix = "trtexec ran several times into this file: give each run's JSON in a file of its own"
        elif text.rstrip()[-1:] not in "]}" or error.pos >= len(text.rstrip()):
            fix = "the file was cut: copy or export it again"
        raise CollectError(
            f"{path}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}", fix=fix
        ) from error
    except RecursionError as error:
        raise CollectError(f"{path}: JSON nested too deep", fix="give trtexec's file") from error


def _entries(path: Path, content: Any) -> list[_Entry]:
    try:
        return msgspec.convert(content, list[_Entry])
    except msgspec.ValidationError as error:
        raise CollectError(f"{path}: {error}", fix="give trtexec's file, or export again") from error


def _median_latency(path: Path) -> float:
    values = [one.latency_ms for one in _entries(path, _load(path))]
    if not values or None in values:
        raise CollectError(f"{path}: expected iteration times with latencyMs", fix="export with --exportTimes")
    return float(np.median(np.array(values, dtype=np.float64))) * 1e-3


def _layers(path: Path, content: Any) -> list[Layer]:
    """--exportLayerInfo as modelled layers, in order."""
    found = content.get("Layers") if isinstance(content, dict) else None
    if not isinstance(found, list) or not found:
        raise CollectError(
            f'{path}: expected an object with "Layers"',
            fix="export with --exportLayerInfo, --profilingVerbosity=detailed",
        )
    try:
        return [layer(info) for info in found]
    except (AttributeError, KeyError, TypeError) as error:
        raise CollectError(f"{path}: an invalid layer: {error}", fix="export again") from error


def _of_run(run: Run, info: Sequence[Layer] | None = None, latency: float = math.nan) -> pd.DataFrame:
    """Layers of one run of a log, or one row for the whole network without layers."""
    if run.names:
        frame = _frame(run.names, np.array(run.means), info, [])
        printed = run.seconds("Latency").get("median", math.nan)
        frame = _against(frame, printed if math.isnan(latency) else latency)
    else:
        compute = run.seconds("GPU Compute Time")
        mean = list((compute or run.seconds("Latency")).values())[:1]
        what, fix = (
            "the log lists no layers: one row stands for the whole network",
            "run trtexec with --dumpProfile --separateProfileRun",
        )
        whole = Caveat(what, "GPU compute time" if compute else "latency, copies included", fix)
        frame = _frame(["whole network"], np.array(mean), None, [whole])
    frame.attrs["report"] = "log"
    for name, fact in (("device", "Selected Device"), ("cc", "Compute Capability")):
        frame[name] = pd.Series([run.facts.get(fact, "")] * len(frame), dtype=frame[name].dtype)
    return frame


def _of_runs(runs: Sequence[Run]) -> pd.DataFrame:
    """Runs of a log one after the other, each a range."""
    frames = {f"run {number}": _of_run(one) for number, one in enumerate(runs, 1)}
    frame: pd.DataFrame = pd.concat([one.assign(range=name) for name, one in frames.items()], ignore_index=True)
    frame["launch"] = np.arange(len(frame))
    caveats = [
        msgspec.structs.replace(caveat, about=name) for name, one in frames.items() for caveat in one.attrs["caveats"]
    ]
    what = "several runs of trtexec stand in one file: what is added up over ranges, and its shares, are of all of them"
    fix = "read each range by itself, or `profkit compare RUN:RANGE RUN:RANGE`"
    several = Caveat(what, f"{len(runs)} runs", fix)
    frame.attrs = {"report": "log", "caveats": [several, *caveats]}
    return frame


def _frame(names: Sequence[str], mean: Any, info: Sequence[Layer] | None, caveats: Sequence[Caveat]) -> pd.DataFrame:
    """Frame of a profile with bytes and FLOP of its layers, matched in order, else by name."""
    caveats = list(caveats)
    columns: dict[str, Any] = {"kernel": names, "kind": "layer", "time": mean}
    if info is not None:
        layers = _matched(names, info, caveats)
        columns |= _modelled(layers)
        caveats += _layer_caveats(layers, mean)
    return build(columns, tool="trtexec", caveats=caveats, report="profile")


def _matched(names: Sequence[str], info: Sequence[Layer], caveats: list[Caveat]) -> list[Layer]:
    if [one.name for one in info] == list(names):
        return list(info)
    waiting: dict[str, list[Layer]] = {}
    for one in info:
        waiting.setdefault(one.name, []).append(one)
    found = [waiting[name].pop(0) if waiting.get(name) else None for name in names]
    lost = found.count(None)
    if lost == len(names):
        raise CollectError(
            "no layer of the profile is in the layer information", fix="give both exports of the same engine"
        )
    if lost:
        caveats.append(Caveat("layers of the profile are not in the layer information", f"{lost} of {len(names)}", ""))
    return [one or Layer(name) for one, name in zip(found, names, strict=True)]


def _modelled(layers: Sequence[Layer]) -> dict[str, Any]:
    """dram_* and FLOP columns from the model; FLOP only in the column of a layer's pipe."""
    read_, written = np.array([one.read for one in layers]), np.array([one.written for one in layers])
    columns: dict[str, Any] = {"dram_bytes": read_ + written, "dram_read": read_, "dram_write": written}
    for compute in dict.fromkeys(one.compute for one in layers if one.compute):
        values = np.array([one.flop if one.compute == compute else math.nan for one in layers])
        if not np.isnan(values).all():
            columns[f"{'op' if compute.startswith('tensor') else 'flop'}_{compute}"] = values
    return columns


def _layer_caveats(layers: Sequence[Layer], mean: Any) -> list[Caveat]:
    if not any(one.type for one in layers):
        what = "the layer information holds names only: no bytes, no FLOP"
        return [Caveat(what, f"{len(layers)} layers", "build with --profilingVerbosity=detailed")]
    found = [Caveat("bytes and FLOP are modelled from the layers' shapes, not counted", f"{len(layers)} layers", "")]
    opaque = np.array([one.opaque for one in layers], dtype=bool)
    if opaque.any():
        share = np.nansum(mean[opaque]) / (np.nansum(mean) or 1.0)
        much = f"{int(opaque.sum())} layers, {share:.0%} of the time"
        found.append(Caveat("fused layers (Myelin, ForeignNode) hide what they compute", much, ""))
    return found


def _against(frame: pd.DataFrame, latency: float) -> pd.DataFrame:
    """The frame, with a caveat if the layers do not add up to the median latency [s]."""
    ratio = float(frame["time"].sum()) / latency
    if abs(ratio - 1) > _FAR:
        what = "the layers do not add up to the latency: they were timed separately, without graph or overlap"
        fix = "take shares from the layers, the time from the latency"
        frame.attrs["caveats"].append(Caveat(what, f"sum / median latency = {ratio:.3f}", fix))
    return frame


def _companions(heads: Mapping[Path, str]) -> Groups:
    """A profile with its layers and times, matched by name prefix."""
    parts = {
        path: next((name for name, mark in _PARTS.items() if re.search(mark, head)), "") for path, head in heads.items()
    }
    profiles = [path for path, part in parts.items() if part == "profile"]
    leaders = profiles or [path for path, part in parts.items() if part == "layers"]
    groups: Groups = {path: {} for path, part in parts.items() if path in leaders or not part or not leaders}
    for path, part in parts.items():
        if path not in groups:
            groups[max(leaders, key=lambda one: _alike(one.name, path.name))][part] = path
    return groups


def _alike(a: str, b: str) -> int:
    """Length of the common prefix of two names."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


FORMAT = Format("trtexec", sniff, read, lambda frame: Role("layers"), companions=_companions)
