"""The ledger of a run or of a foreign trace."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import collectors
from analyzers.ledger.ledger import Ledger, ledger
from collectors.frame import host_of
from profkit.errors import ProfkitError
from profkit.launch import cache
from profkit.study.files import devices_of
from profkit.study.study import open_study
from roofline.ceilings import Roofline, datasheet_ceilings
from roofline.device import find_spec


def open_ledger(path: Path) -> Ledger:
    """Ledger of the busiest process and device, with measured ceilings if kept.

    Raises ProfkitError, CollectError or AnalyzeError without a timeline.
    """
    l2 = math.nan
    if path.is_dir():
        study = open_study(path)
        frame, host, roofline = study.captured.timeline, study.host, study.roofline
        name, l2 = roofline.device, float(study.manifest.device.get("l2_bytes") or math.nan)
    else:
        frame = collectors.read(path)
        host = host_of(frame)
        name = next((one for one in frame["device"].unique() if one and not one.isdigit()), "")
        roofline = Roofline.from_dict({"device": name, "ceilings": _kept(name)})
    if (spec := find_spec(name)) is not None:
        roofline, l2 = roofline.with_(datasheet_ceilings(spec)), spec.l2_bytes if math.isnan(l2) else l2
    parts = list(devices_of(frame, host)) if frame is not None else []
    if not parts:
        raise ProfkitError(
            f"{path}: no timeline of a program",
            fix="give a trace of torch.profiler or nsys, or a run of a program: profkit profile -- COMMAND",
        )
    label, part, calls = max(parts, key=lambda one: float(one[1]["time"].sum()))
    return ledger(part, calls, roofline, l2_bytes=l2, device=label or name)


def _kept(name: str) -> list[dict[str, Any]]:
    """Last measured ceilings of a device with this name."""
    found = []
    for file in (cache.root() / "ceilings").glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            one = json.loads(file.read_text("utf-8"))
            if name and one["device"]["name"] == name:
                found.append((one["created"], one["ceilings"]))
    return max(found, key=lambda one: str(one[0]))[1] if found else []
