"""The ceilings of the device a run was made on: never of the machine that reads it."""

from __future__ import annotations

import math

import pandas as pd

from profkit.rundir.directory import Run
from roofline.ceilings import Roofline, datasheet_ceilings, ncu_ceilings
from roofline.device import find_spec


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
