"""Limits of the machine: device sheets, ceilings, micro-benchmarks, roofline figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.ceilings import (
    Ceiling,
    Roofline,
    datasheet_ceilings,
    derived_ceilings,
    ncu_ceilings,
)
from roofline.device import (
    Device,
    DeviceSpec,
    bandwidth_from_clocks,
    derived_peaks,
    find_spec,
    specs,
)
from roofline.errors import RooflineError

if TYPE_CHECKING:
    from roofline.figure.plot import draw, save
    from roofline.figure.scene import Arrow, LowerBoundPoint, Point, Scene

__all__ = [
    "Arrow",
    "Ceiling",
    "Device",
    "DeviceSpec",
    "LowerBoundPoint",
    "Point",
    "Roofline",
    "RooflineError",
    "Scene",
    "bandwidth_from_clocks",
    "datasheet_ceilings",
    "derived_ceilings",
    "derived_peaks",
    "draw",
    "find_spec",
    "ncu_ceilings",
    "save",
    "specs",
]

_LAZY = {
    "draw": "figure.plot",
    "save": "figure.plot",
    "Arrow": "figure.scene",
    "LowerBoundPoint": "figure.scene",
    "Point": "figure.scene",
    "Scene": "figure.scene",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
