"""The device a run was made on, as its files or its driver tell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from profkit.launch import gpu

if TYPE_CHECKING:
    import pandas as pd

KINDS = {"nvidia": "cuda", "amd": "rocm"}
"""The kind of device a manifest names, by the vendor of collectors.Format."""


def device_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader says of a device as the manifest keeps it: known numbers alone."""
    numbers = ("l2_bytes", "memory_bytes", "max_sm_clock", "max_mem_clock", "bus_bits")
    known = {name: float(facts[name]) for name in numbers if facts.get(name)}
    found: dict[str, Any] = {name: value for name, value in known.items() if not math.isnan(value)}
    sms = facts.get("sms")
    return found | ({"sms": int(sms)} if sms and sms == sms else {})


def device_of(frames: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """The device that the launches name, with its identity by the driver if it is here.

    frames: launches by tool; ncu's know most.
    """
    frame = frames.get("ncu", next(iter(frames.values())))
    known = device_facts(next(iter(frame.attrs.get("devices", ())), {}))
    name = next((str(one) for one in frame["device"] if one and not str(one).isdigit()), "")
    cc = next((str(one) for one in frame["cc"] if one), "")
    here = gpu.identity()
    mine = here if here and here.get("name") in (name, "") else {}
    named = {"name": name or here.get("name", "unknown device")}
    return {"kind": "cuda", **known, **named, **mine, **({"cc": cc} if cc else {})}
