"""GPU activity over time: busy, idle, overlap and shares, for frames with a timeline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analyzers.counts import column, grouped, known_sums
from analyzers.errors import AnalyzeError
from analyzers.timeline.intervals import Times, length, merged, rows
from collectors.caveat import Caveat
from collectors.frame import spelt

_NS = 1e9


@dataclass(frozen=True)
class Gaps:
    """Idle stretches on one device [s]; after, before: work around the largest."""

    count: int
    total: float
    largest: float
    median: float
    after: str = ""
    before: str = ""


@dataclass(frozen=True)
class DeviceTime:
    """One device [s]: span = busy + gaps.total; overlap = summed work - busy."""

    device: str
    launches: int
    span: float
    busy: float
    overlap: float
    gaps: Gaps

    @property
    def idle(self) -> float:
        """Idle fraction of the span, 0..1."""
        return self.gaps.total / self.span if self.span else 0.0


@dataclass(frozen=True)
class Share:
    """GPU time [s] of a kernel, copy or range, share, launches; own: without inner ranges."""

    name: str
    time: float
    share: float
    launches: int
    own: float


@dataclass(frozen=True)
class Api:
    """CPU side of the CUDA API: calls and time [s], and of the launching ones."""

    calls: int
    time: float
    launch_calls: int
    launch_time: float

    @property
    def per_launch(self) -> float:
        """Mean CPU time of a launching call [s]."""
        return self.launch_time / self.launch_calls if self.launch_calls else float("nan")


@dataclass(frozen=True)
class Timeline:
    """Facts of one capture; `devices` is empty where the frame has no start times (summaries)."""

    devices: tuple[DeviceTime, ...]
    total: float
    kernels: tuple[Share, ...]
    copies: tuple[Share, ...]
    ranges: tuple[Share, ...]
    api: Api | None
    caveats: tuple[Caveat, ...]


def timeline(frame: pd.DataFrame) -> Timeline:
    """Timeline facts of a launches frame of kernels and memory operations.

    Ranges are listed by full path and, for the enclosing ones, with what is inside. Shares are sorted,
    longest first. Raises AnalyzeError for an empty frame, one without times, or one of layers.
    """
    if "time" not in frame or frame.empty or not (frame["time"] > 0).any():
        raise AnalyzeError("no launches with a time: there is no timeline", fix="read an nsys export with GPU work")
    if (frame["kind"] == "layer").any():
        raise AnalyzeError("layers have no timeline", fix="read an nsys export of the same engine")
    caveats = tuple(frame.attrs.get("caveats", ()))
    devices = _devices(frame) if "start" in frame else ()
    counts = frame["instances"].to_numpy() if "instances" in frame else np.ones(len(frame), dtype=np.int64)
    # A million launches have few names and ranges.
    groups, first = grouped([frame[name] for name in ("kernel", "range", "kind")])
    time, launches = known_sums(np.array([column(frame, "time") * counts, counts]), groups)
    work = spelt(frame[["kernel", "range", "kind"]].iloc[first]).assign(time=time, launches=launches)
    total = float(work["time"].sum())
    kernels = work["kind"] == "kernel"
    return Timeline(
        devices,
        total,
        _shares(work[kernels], total),
        _shares(work[~kernels], total),
        _ranges(work, total),
        _api(frame.attrs.get("api")),
        caveats,
    )


def device_labels(frame: pd.DataFrame) -> pd.Series:
    """Which device each row ran on: its name, with its number where there are several."""
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


def _devices(frame: pd.DataFrame) -> tuple[DeviceTime, ...]:
    codes, labels = pd.factorize(device_labels(frame))
    found = []
    start, time = column(frame, "start"), column(frame, "time")
    known = ~np.isnan(start + time)
    for code, label in enumerate(labels):
        mine = (codes == code) & known
        if mine.any():
            mine = rows(mine)
            found.append(_device(str(label), start[mine], time[mine], frame["kernel"].iloc[mine]))
    return tuple(found)


def _device(label: str, start: Times, time: Times, kernel: pd.Series) -> DeviceTime:
    # Whole nanoseconds, as the tools count: seconds as floats would leave gaps of rounding.
    begin = np.rint(start * _NS)
    end = begin + np.rint(time * _NS)
    busy = merged(begin, end)
    idle = busy[1:, 0] - busy[:-1, 1]
    span, worked = float(busy[-1, 1] - busy[0, 0]), length(busy)
    after = before = ""
    if len(idle):
        at = int(idle.argmax())
        # The work that ended last before the gap, which need not be the one that began last.
        after = str(kernel.iloc[int(np.flatnonzero(end == busy[at, 1])[0])])
        before = str(kernel.iloc[int(np.flatnonzero(begin == busy[at + 1, 0])[0])])
    largest, median = (float(idle.max()), float(np.median(idle))) if len(idle) else (0.0, 0.0)
    found = Gaps(len(idle), float(idle.sum()) / _NS, largest / _NS, median / _NS, after, before)
    overlap = (float((end - begin).sum()) - worked) / _NS
    return DeviceTime(label, len(begin), span / _NS, worked / _NS, overlap, found)


def _shares(work: pd.DataFrame, total: float) -> tuple[Share, ...]:
    sums = work.groupby("kernel", sort=False, observed=True)[["time", "launches"]].sum()
    return _sorted(
        Share(str(name), float(time), float(time) / total, int(launches), float(time))
        for name, time, launches in sums.itertuples()
    )


def _ranges(work: pd.DataFrame, total: float) -> tuple[Share, ...]:
    own = work.groupby("range", sort=False, observed=True)[["time", "launches"]].sum()
    inside: dict[str, list[float]] = {}
    for path, time, launches in own.itertuples():
        parts = str(path).split("/")
        for depth in range(len(parts)):
            held = inside.setdefault("/".join(parts[: depth + 1]), [0.0, 0.0, 0.0])
            held[0] += float(time)
            held[1] += float(launches)
            held[2] += float(time) if depth == len(parts) - 1 else 0.0
    if set(inside) == {""}:
        return ()
    # A range round a single one that holds all of it says nothing of its own.
    twice = {
        name.rpartition("/")[0]
        for name, held in inside.items()
        if inside.get(name.rpartition("/")[0], [])[:2] == held[:2]
    }
    return _sorted(
        Share(name, time, time / total, int(n), mine)
        for name, (time, n, mine) in inside.items()
        if name not in twice or not name
    )


def _sorted(shares: Iterable[Share]) -> tuple[Share, ...]:
    return tuple(sorted(shares, key=lambda one: (-one.time, one.name)))


def _api(facts: Any) -> Api | None:
    if not facts:
        return None
    return Api(int(facts["calls"]), facts["time"], int(facts["launch_calls"]), facts["launch_time"])
