"""The ledger of a run, of a trace as somebody has it, or as it was written down."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import collectors
from analyzers.ledger.ledger import Ledger, ledger
from collectors.frame import host_of
from profkit.errors import ProfkitError
from profkit.study.hosts import devices_of
from profkit.study.study import open_study
from roofline.ceilings import Roofline, datasheet_ceilings
from roofline.device import find_spec

Kept = Callable[[str], Iterable[Mapping[str, Any]]]


def open_ledger(path: Path, kept: Kept) -> Ledger:
    """The ledger of the process and device that is busy longest. kept: device's name -> measured ceilings of this machine's.

    Raises ProfkitError, CollectError or AnalyzeError for what has no timeline.
    """
    if path.is_dir():
        study = open_study(path)
        frame, host = study.captured.timeline, study.host
        device = study.manifest.device
        name, roofline, l2 = str(device.get("name", "")), study.roofline, float(device.get("l2_bytes") or math.nan)
    else:
        frame = collectors.read(path)
        host = host_of(frame)
        name = next((one for one in frame["device"].unique() if one and not one.isdigit()), "")
        roofline, l2 = Roofline.from_dict({"device": name, "ceilings": list(kept(name))}), math.nan
    spec = find_spec(name)
    if spec is not None:
        roofline = roofline.with_(datasheet_ceilings(spec))
        l2 = spec.l2_bytes if math.isnan(l2) else l2
    parts = list(devices_of(frame, host)) if frame is not None else []
    if not parts:
        raise ProfkitError(
            f"{path}: no timeline of a program here",
            fix="give a trace of torch.profiler or nsys, or a run of a program: profkit profile -- COMMAND",
        )
    label, part, calls = max(parts, key=lambda one: float(one[1]["time"].sum()))
    return ledger(part, calls, roofline, l2_bytes=l2, device=label or name)
