"""Ceilings of one device and their roofline: attainable = min(peak, intensity x bandwidth)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import force_setattr, replace

from roofline.device import DeviceSpec, clock_of
from roofline.errors import RooflineError

COMPUTE = (
    "fp64",
    "fp32",
    "fp16",
    "tensor_fp64",
    "tensor_tf32",
    "tensor_bf16",
    "tensor_fp16",
    "tensor_fp8",
    "tensor_int8",
)
BANDWIDTH = ("dram", "l2", "l1")
Kind = Literal["compute", "bandwidth", "time"]
Source = Literal["measured", "ncu", "datasheet"]
UNITS = {"compute": "FLOP/s", "bandwidth": "B/s", "time": "s"}
LAUNCH_NOTE = "of no sheet: as CUPTI saw additions of one element on a device of this kind"
TRUST = get_args(Source)
"""Sources, the most trusted first."""

NAN = math.nan


class Ceiling(msgspec.Struct, frozen=True, omit_defaults=True):
    """One ceiling: a compute peak [FLOP/s], a bandwidth [B/s] or a least time [s].

    Times: `launch` (an empty kernel).
    Optional: SM clock [Hz], power [W], kernel variant, relative spread of the repeats, time of measuring (ISO 8601).
    Raises RooflineError if the peak is not a positive number.
    """

    name: str
    kind: Kind
    peak: float
    source: Source
    note: str = ""
    clock: float = NAN
    power: float = NAN
    variant: str = ""
    spread: float = NAN
    measured_at: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.peak) and self.peak > 0):
            raise RooflineError(
                f"ceiling {self.name!r}: peak {self.peak!r} is not a positive number",
                fix="leave an unknown ceiling out",
            )
        for name in ("clock", "power", "spread"):
            if math.isnan(getattr(self, name)):
                force_setattr(self, name, NAN)  # the default itself, so that it is left out of JSON


class Roofline(msgspec.Struct, frozen=True):
    """Ceilings of one device, in closed form; at most one of each name and source."""

    device: str
    ceilings: tuple[Ceiling, ...] = ()

    def get(self, name: str, source: str | None = None) -> Ceiling | None:
        """The ceiling of that name from that source, or the most trusted one; None if unknown."""
        found = [c for c in self.ceilings if c.name == name and source in (None, c.source)]
        return min(found, key=lambda c: TRUST.index(c.source), default=None)

    def peak(self, name: str) -> float:
        """The most trusted value of a ceiling [FLOP/s, B/s or s]; NaN if unknown."""
        ceiling = self.get(name)
        return NAN if ceiling is None else ceiling.peak

    def attainable(self, intensity: float, compute: str = "fp32", level: str = "dram") -> float:
        """Attainable FLOP/s at an intensity [FLOP/B]; NaN if a ceiling is unknown."""
        peak, bandwidth = self.peak(compute), self.peak(level)
        if math.isnan(peak) or math.isnan(bandwidth) or not intensity >= 0:
            return NAN
        return min(peak, intensity * bandwidth)

    def ridge(self, compute: str = "fp32", level: str = "dram") -> float:
        """Ridge point [FLOP/B] of bandwidth and compute ceiling; NaN for an unknown ceiling."""
        return self.peak(compute) / self.peak(level)

    def with_(self, ceilings: Iterable[Ceiling]) -> Roofline:
        """A roofline with these ceilings added; the same name and source is replaced."""
        merged = {(c.name, c.source): c for c in (*self.ceilings, *ceilings)}
        return replace(self, ceilings=tuple(merged.values()))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Roofline:
        """The roofline of plain data; unknown fields are ignored. Raises RooflineError."""
        try:
            rows = [{k: v for k, v in row.items() if v is not None} for row in data["ceilings"]]
            return msgspec.convert({**data, "ceilings": rows}, cls)
        except KeyError as error:
            raise RooflineError("roofline: no field ceilings", fix="measure the ceilings again") from error
        except msgspec.ValidationError as error:
            raise RooflineError(f"roofline: {error}", fix="measure the ceilings again") from error


def datasheet_ceilings(spec: DeviceSpec) -> tuple[Ceiling, ...]:
    """The sheet's ceilings, each with its clock and source."""
    note = spec.source + (f"; {spec.note}" if spec.note else "")
    compute = [
        Ceiling(name, "compute", peak, "datasheet", note=note, clock=clock_of(spec, name))
        for name, peak in spec.peaks.items()
    ]
    times = [] if math.isnan(spec.launch) else [Ceiling("launch", "time", spec.launch, "datasheet", note=LAUNCH_NOTE)]
    return (*compute, Ceiling("dram", "bandwidth", spec.bandwidth, "datasheet", note=note), *times)


def ncu_ceilings(peaks: Mapping[str, float], clock: float = NAN) -> tuple[Ceiling, ...]:
    """Ceilings from ncu's own peak counters: peak_fp32 [FLOP/s], peak_dram_bw [B/s] ...

    Other keys, and peaks that are NaN or 0, are skipped. `clock`: SM clock [Hz] of that launch.
    """
    found = []
    for key, value in peaks.items():
        if not key.startswith("peak_") or not (math.isfinite(value) and value > 0):
            continue
        name = key[len("peak_") :]
        kind: Kind = "bandwidth" if name.endswith("_bw") else "compute"
        name = name.removesuffix("_bw")
        if name in (COMPUTE if kind == "compute" else BANDWIDTH):
            note = "peak_sustained x clock of the profiled launch"
            found.append(Ceiling(name, kind, float(value), "ncu", note=note, clock=clock))
    return tuple(found)
