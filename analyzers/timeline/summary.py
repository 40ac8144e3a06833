"""GPU activity over time: busy, idle, overlap and copies, for frames with a timeline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analyzers.counts import column
from analyzers.errors import AnalyzeError
from analyzers.timeline.intervals import Times, length, merged, rows

_NS = 1e9


@dataclass(frozen=True)
class DeviceTime:
    """Times of one device [s]: busy and idle (in `gaps`) add up to its span.

    overlap: summed work minus busy. largest: the longest gap; after, before: the work around it.
    """

    device: str
    span: float
    busy: float
    overlap: float
    gaps: int
    largest: float
    after: str = ""
    before: str = ""

    @property
    def idle(self) -> float:
        """Idle fraction of the span, 0..1."""
        return (self.span - self.busy) / self.span if self.span else 0.0


@dataclass(frozen=True)
class Timeline:
    """Facts of one capture; `devices` is empty without start times (summaries).

    `total`, `copied` [s]: GPU time of all work, and of copies and fills.
    """

    devices: tuple[DeviceTime, ...]
    total: float
    copied: float


def timeline(frame: pd.DataFrame) -> Timeline:
    """Timeline facts of a launches frame of kernels and memory operations.

    Raises AnalyzeError for an empty frame, one without times, or one of layers or operators.
    """
    if "time" not in frame or frame.empty or not (frame["time"] > 0).any():
        raise AnalyzeError("no launches with a time: there is no timeline", fix="read an nsys export with GPU work")
    if frame["kind"].isin(("layer", "operator")).any():
        raise AnalyzeError("layers and operators are not GPU work", fix="read an nsys export of the same engine")
    counts = frame["instances"].to_numpy() if "instances" in frame else 1
    times = column(frame, "time") * counts
    moved = times[(frame["kind"] != "kernel").to_numpy()]
    devices = _devices(frame) if "start" in frame else ()
    return Timeline(devices, float(np.nansum(times)), float(np.nansum(moved)))


def device_labels(frame: pd.DataFrame) -> pd.Series:
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


def _devices(frame: pd.DataFrame) -> tuple[DeviceTime, ...]:
    codes, labels = pd.factorize(device_labels(frame))
    start, time = column(frame, "start"), column(frame, "time")
    codes = np.where(np.isnan(start + time), -1, codes)
    chosen = {str(label): rows(codes == code) for code, label in enumerate(labels) if (codes == code).any()}
    return tuple(_device(name, start[at], time[at], frame["kernel"].iloc[at]) for name, at in chosen.items())


def _device(label: str, start: Times, time: Times, kernel: pd.Series) -> DeviceTime:
    # Whole nanoseconds, as the tools count: seconds as floats would leave gaps of rounding.
    begin = np.rint(start * _NS)
    end = begin + np.rint(time * _NS)
    busy = merged(begin, end)
    idle = busy[1:, 0] - busy[:-1, 1]
    span, worked = float(busy[-1, 1] - busy[0, 0]), length(busy)
    around = ("", "")
    if len(idle):
        at = int(idle.argmax())
        # The work that ended last before the gap, which need not be the one that began last.
        places = end == busy[at, 1], begin == busy[at + 1, 0]
        around = str(kernel.iloc[int(places[0].argmax())]), str(kernel.iloc[int(places[1].argmax())])
    largest, overlap = float(idle.max(initial=0.0)), float((end - begin).sum()) - worked
    return DeviceTime(label, span / _NS, worked / _NS, overlap / _NS, len(idle), largest / _NS, *around)
