"""Datasheet figures of GPUs, and the row of a driver's device name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any

import msgspec

TENSOR_CLOCKED = frozenset({"tensor_tf32", "tensor_bf16", "tensor_fp16", "tensor_fp8", "tensor_int8"})
"""Compute names with sheet figures at the tensor clock; FP64 tensor rates are at the vector clock."""

NAN = math.nan


@dataclass(frozen=True)
class Device:
    """One device as a run saw it, partly unknown. Clocks in Hz, sizes in bytes."""

    kind: str
    name: str
    cc: str = ""
    sms: int | None = None
    l2_bytes: float = NAN
    memory_bytes: float = NAN
    max_sm_clock: float = NAN
    max_mem_clock: float = NAN
    bus_bits: int | None = None
    uuid: str = ""
    driver: str = ""
    threads: int | None = None


@dataclass(frozen=True)
class DeviceSpec:
    """Dense sheet figures of a GPU: peaks [FLOP/s], bandwidth [B/s], clocks [Hz], sizes [B].

    `rates`: fused multiply-adds per SM and clock. `launch` [s]: measured device time of an empty kernel. Unknown
    figures are absent or NaN.
    """

    name: str
    match: tuple[str, ...]
    cc: str
    sms: int | None
    vector_clock: float
    tensor_clock: float
    rates: Mapping[str, float]
    peaks: Mapping[str, float]
    bandwidth: float
    mem_clock: float
    bus_bits: int | None
    l2_bytes: float
    memory_bytes: float
    source: str
    launch: float = NAN
    note: str = ""


@lru_cache(maxsize=1)
def specs() -> tuple[DeviceSpec, ...]:
    """All rows of devices.toml, in order."""
    text = resources.files("roofline").joinpath("devices.toml").read_bytes()
    return tuple(map(_spec, msgspec.toml.decode(text)["gpu"]))


def _spec(row: Mapping[str, Any]) -> DeviceSpec:
    clocks = row.get("clock_mhz", {})
    memory = row.get("memory", {})
    return DeviceSpec(
        name=row["name"],
        match=tuple(row["match"]),
        cc=row["cc"],
        sms=row.get("sms"),
        vector_clock=clocks.get("vector", NAN) * 1e6,
        tensor_clock=clocks.get("tensor", NAN) * 1e6,
        rates=MappingProxyType({k: float(v) for k, v in row.get("rates", {}).items()}),
        peaks=MappingProxyType({k: v * 1e12 for k, v in row["peaks"].items()}),
        bandwidth=row["bandwidth"] * 1e9,
        mem_clock=memory.get("clock_mhz", NAN) * 1e6,
        bus_bits=memory.get("bus_bits"),
        l2_bytes=row.get("l2_mb", NAN) * 2.0**20,
        memory_bytes=row["memory_gib"] * 2.0**30,
        source=row["source"],
        launch=row.get("launch_us", NAN) * 1e-6,
        note=row.get("note", ""),
    )


def find_spec(
    name: str, *, cc: str | None = None, sms: int | None = None, memory_bytes: float | None = None
) -> DeviceSpec | None:
    """Row of a device by the driver's name, or None; never an approximate match.

    `cc`, `sms` and `memory_bytes`, if given, must agree: a MIG slice is another device.
    """
    wanted = _normal(name)
    for spec in specs():
        if wanted in {_normal(n) for n in (*spec.match, spec.name)}:
            return spec if _agrees(spec, cc, sms, memory_bytes) else None
    return None


def _agrees(spec: DeviceSpec, cc: str | None, sms: int | None, memory_bytes: float | None) -> bool:
    if cc and cc != spec.cc:
        return False
    if sms and spec.sms and sms != spec.sms:
        return False
    if memory_bytes and not math.isnan(memory_bytes):
        # Drivers report 7 % less than the label at most (ECC on GDDR6), and never more.
        return 0.88 <= memory_bytes / spec.memory_bytes <= 1.02
    return True


def _normal(name: str) -> str:
    """Lower case, single spaces, without optional vendor words."""
    words = re.split(r"[\s_\-]+", name.strip().lower())
    return " ".join(w for w in words if w not in {"nvidia", "tesla", "geforce"})


def bandwidth_from_clocks(mem_clock_hz: float, bus_bits: float) -> float:
    """Theoretical DRAM bandwidth [B/s]: two transfers per clock over the bus; NaN in, NaN out."""
    return 2.0 * mem_clock_hz * bus_bits / 8.0


def clock_of(spec: DeviceSpec, compute: str) -> float:
    """Clock [Hz] of the sheet's figure for a compute name."""
    return spec.tensor_clock if compute in TENSOR_CLOCKED else spec.vector_clock


L1_BYTES_PER_CLOCK = 128.0
"""Load bandwidth of one SM's L1 [B/clock], on every chip since 7.0."""


def derived_peaks(spec: DeviceSpec, *, clock: float | None = None) -> dict[str, float]:
    """Peaks [FLOP/s]: SMs x FMA rate x 2 x clock [Hz] (default: the sheet's); {} without SMs."""
    if spec.sms is None:
        return {}
    return {
        name: spec.sms * rate * 2.0 * (clock_of(spec, name) if clock is None else clock)
        for name, rate in spec.rates.items()
    }
