"""The processes and devices of a program, and what the host of each did."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd

from analyzers.timeline.summary import device_labels

if TYPE_CHECKING:
    from profkit.study.study import Study


def each_device(study: Study) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame | None]]:
    """(name or "", launches, host calls) of each process and device."""
    frame = study.captured.timeline
    if frame is not None and not study.manifest.impls and not study.of_operators:
        yield from devices_of(frame, study.host)


def devices_of(
    frame: pd.DataFrame, host: pd.DataFrame | None
) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame | None]]:
    """(name, launches, host calls) of each process and device with start times."""
    if "start" not in frame or not (frame["time"] > 0).any():
        return
    labels = device_labels(frame)
    alone = labels.nunique() == 1 and ("process" not in frame or frame["process"].nunique() == 1)
    owner = frame["process"].astype(str) if "process" in frame else ""
    keys = labels if alone else (owner + " " + labels.astype(str)).str.strip()
    several = keys.nunique() > 1
    # Of a million launches a copy is a tenth of a gigabyte.
    for key, part in frame.groupby(keys, sort=False) if several else [(keys.iloc[0], frame)]:
        calls = _calls_of(host, str(part["process"].iloc[0]) if "process" in part else "", several)
        yield str(key) if several else "", part, calls


def _calls_of(host: pd.DataFrame | None, process: str, several: bool) -> pd.DataFrame | None:
    """Host calls of one process; None where they are of several and do not say which."""
    if host is None or not several:
        return host
    return host[host["process"] == process] if "process" in host else None


def lived(host: pd.DataFrame | None) -> float:
    """Life of the process [s]; NaN if unknown."""
    own = host[host["call"] == "process"] if host is not None else None
    return math.nan if own is None or own.empty else float(own["time"].iloc[0])
