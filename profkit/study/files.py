"""Read a run directory's launches, samples and ceilings, by process and device."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from collectors import format_of, read
from collectors.caveat import TARGET_FAILED, Caveat
from collectors.frame import distinct, host_of, renamed, set_host, spelt
from profkit.errors import ProfkitError
from profkit.rundir import harmless
from profkit.rundir.directory import Run
from profkit.rundir.manifest import Capture
from roofline.ceilings import Roofline, datasheet_ceilings, ncu_ceilings
from roofline.device import find_spec

_TIMES = {
    "trtexec": "import what trtexec writes with --exportProfile beside it",
    "rocprof": "import the kernel_trace.csv of `rocprofv3 --kernel-trace` beside it",
}
ORDER = ("counters", "layers", "times", "timeline")


@dataclass(frozen=True)
class Captured:
    """Frames of a run: the best `launches`, the `timeline`, and one call (`calls`) of each part."""

    launches: pd.DataFrame | None
    timeline: pd.DataFrame | None
    calls: pd.DataFrame | None = None


def read_captures(run: Run, known: Mapping[str, pd.DataFrame]) -> Captured:
    """Read a run's files except those `known` already. Raises CollectError for damaged ones."""
    several = bool(run.manifest.impls)
    there = [one for one in run.captures if one.role in ORDER]
    read_in = ((one, known[one.file] if one.file in known else read_capture(run, one)) for one in there)
    found = [(one, _harmless(frame)) for one, frame in read_in]
    best = min((ORDER.index(one.role) for one, _ in found), default=len(ORDER))
    used = [(one, frame) for one, frame in found if ORDER.index(one.role) == best and one.role != "timeline"]
    # What CUPTI saw of one call of a sample has begin and end, but is no timeline.
    traced = ("nsys", "kineto", "nvprof")
    timed = [frame for one, frame in found if not several and "start" in frame and one.tool in traced]
    launches = together(used, run.captures, ranged=not several) if used else None
    calls = [frame for one, frame in found if one.tool == "cupti" and one.role == "times" and "start" in frame]
    return Captured(launches, max(timed, key=len, default=None), calls[0] if calls else None)


def _harmless(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its names escaped for display; the same object if nothing changed."""
    told = {}
    for column in ("impl", "range", "kernel", "device"):
        known = {name: harmless.line(name) for name in distinct(frame[column])}
        if any(name != shown for name, shown in known.items()):
            told[column] = renamed(frame[column], known)
    if (host := host_of(frame)) is not None:
        # The names of ranges and operators are anybody's.
        shown = {name: harmless.line(str(name)) for name in host["call"].unique()}
        if any(name != line for name, line in shown.items()):
            set_host(frame, host.assign(call=host["call"].map(shown).astype("str")))
    if not told:
        return frame
    attrs = frame.attrs
    clean: pd.DataFrame = frame.assign(**told)
    clean.attrs = {**attrs, "caveats": [harmless.struct(one) for one in attrs.get("caveats", ())]}
    return clean


def read_capture(run: Run, capture: Capture) -> pd.DataFrame:
    """The launches frame of one file of a run."""
    options: dict[str, Any] = {name: run.path / file for name, file in capture.companions.items()}
    options |= format_of(capture.tool).options
    if capture.tool == "cupti":
        options |= {name: str(run.manifest.device.get(key, "")) for name, key in (("device", "name"), ("cc", "cc"))}
    options |= {"partial": True} if capture.partial else {}
    frame: pd.DataFrame = read(run.path / capture.file, capture.tool, **options)
    if capture.ended:
        frame.attrs["caveats"] = [one for one in frame.attrs.get("caveats", ()) if one.code != TARGET_FAILED]
    return frame


def together(used: Sequence[tuple[Capture, pd.DataFrame]], every: Sequence[Capture], *, ranged: bool) -> pd.DataFrame:
    """Launches of several files as one frame.

    ranged: parts are ranges, with only kernels and layers; else implementations with copies and fills.
    """
    parts, caveats, moved = [], [], dict[str, tuple[float, float]]()
    for capture, given in used:
        kernels = frame = given if len(used) == 1 else spelt(given)
        if ranged:
            kernels = frame[frame["kind"].isin(("kernel", "layer", "operator"))].reset_index(drop=True)
            label = Path(capture.origin or capture.file).stem if len(used) > 1 else ""
            impl = kernels["range"]
            if label:
                told = {path: ": ".join(part for part in (label, path) if part) for path in impl.unique()}
                impl = renamed(impl, told)
            kernels = kernels.assign(impl=impl)
        parts.append(kernels)
        for kind, rows in frame[frame["kind"].isin(("memcpy", "memset"))].groupby("kind"):
            times = rows.get("instances", pd.Series(1, rows.index)), rows.get("time", pd.Series(math.nan, rows.index))
            before = moved.get(str(kind), (0.0, 0.0))
            moved[str(kind)] = (before[0] + float(times[0].sum()), before[1] + float((times[0] * times[1]).sum()))
        caveats += [row for row in frame.attrs.get("caveats", ()) if row not in caveats]
    merged: pd.DataFrame = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]
    if "time" not in merged or merged["time"].isna().all():
        merged = merged.assign(time=math.nan)
        fix = "ask ncu for `--section SpeedOfLight`, or for gpu__time_duration.sum among its --metrics"
        lost = "no rates, no shares, no place on the roofline"
        fix = _TIMES.get(next(iter(merged["tool"].unique()), ""), fix)
        caveats.append(Caveat("not in this export: time", lost, fix, "no-time"))
    merged.attrs["moved"] = moved if ranged else {}
    merged.attrs["unlisted"] = sum(frame.attrs.get("unlisted", 0.0) for _, frame in used)
    rest = [one for one in every if not any(one is other for other, _ in used)]
    how_much, fix = "the same launches may be in it", "import it separately for its own report"
    merged.attrs["caveats"] = caveats + [
        Caveat(f"not added to the kernels: {one.origin}", how_much, fix)
        for one in rest
        if one.origin and one.role not in ("report", "lines")
    ]
    return merged


def read_csv(file: Path) -> pd.DataFrame | None:
    """Read a file of samples; None if there is no file. Raises ProfkitError if damaged."""
    if not file.exists():
        return None
    try:
        data = file.read_bytes()
        frame = pd.read_csv(io.BytesIO(data), keep_default_na=True)
        frame["seconds"] = frame["seconds"].astype(float)
    except KeyError as error:
        raise _damaged(file, "no column seconds") from error
    except (ValueError, OSError) as error:
        raise _damaged(file, str(error)) from error
    missing = [name for name in ("impl", "method", "round") if name not in frame]
    if missing:
        raise _damaged(file, f"no column {', '.join(missing)}")
    if not data.endswith(b"\n"):
        raise _damaged(file, f"line {len(frame) + 1} is cut")
    shown: pd.DataFrame = frame.assign(impl=[harmless.line(str(name)) for name in frame["impl"]])
    return shown


def _damaged(file: Path, what: str) -> ProfkitError:
    return ProfkitError(f"{file}: {what}", fix="the file is damaged: measure again")


def roofline_of(run: Run, launches: pd.DataFrame | None) -> Roofline:
    """Ceilings of the run's own device: measured, ncu's peaks, the datasheet."""
    device = run.manifest.device
    name = str(device.get("name", "unknown device"))
    roof = Roofline.from_dict({"device": name, "ceilings": run.manifest.ceilings})
    if device.get("kind") == "cuda":
        spec = find_spec(name, cc=device.get("cc"), sms=device.get("sms"), memory_bytes=device.get("memory_bytes"))
        if spec is not None:
            roof = roof.with_(datasheet_ceilings(spec))
    if launches is not None and not launches.empty:
        peaks = {
            column: float(launches[column].median()) for column in launches.columns if str(column).startswith("peak_")
        }
        clock = float(launches["sm_clock"].median()) if "sm_clock" in launches else math.nan
        roof = roof.with_(ncu_ceilings(peaks, clock))
    return roof


def devices_of(
    frame: pd.DataFrame, host: pd.DataFrame | None
) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame | None]]:
    """(name, launches, host calls) of each process and device with start times."""
    if "start" not in frame or not (frame["time"] > 0).any():
        return
    labels = _device_labels(frame)
    alone = labels.nunique() == 1 and ("process" not in frame or frame["process"].nunique() == 1)
    owner = frame["process"].astype(str) if "process" in frame else ""
    keys = labels if alone else (owner + " " + labels.astype(str)).str.strip()
    several = keys.nunique() > 1
    # Of a million launches a copy is a tenth of a gigabyte.
    for key, part in frame.groupby(keys, sort=False) if several else [(keys.iloc[0], frame)]:
        calls = _calls_of(host, str(part["process"].iloc[0]) if "process" in part else "", several)
        yield str(key) if several else "", part, calls


def _device_labels(frame: pd.DataFrame) -> pd.Series:
    """Device of each row: its name, with its number if there are several."""
    given = frame["device"]
    labels: pd.Series = given if isinstance(given.dtype, (pd.StringDtype, pd.CategoricalDtype)) else given.astype(str)
    if "stream" not in frame:
        return labels
    # Streams of several devices carry the number of theirs: "1:7".
    if not any(":" in str(stream) for stream in frame["stream"].unique()):
        return labels
    number = frame["stream"].astype(str).str.extract(r"^(\d+):", expand=False)
    labels = labels.astype(str)
    several: pd.Series = labels.where(number.isna(), labels + " (" + number.fillna("") + ")")
    return several


def _calls_of(host: pd.DataFrame | None, process: str, several: bool) -> pd.DataFrame | None:
    """Host calls of one process; None if they cover several without naming them."""
    if host is None or not several:
        return host
    return host[host["process"] == process] if "process" in host else None
