"""Rules that the figures of every dense sheet follow; a figure known not to says so in its row (`exception`)."""

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import roofline
from roofline.device import DeviceSpec, bandwidth_from_clocks, derived_peaks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAN = math.nan
ROWS: dict[str, dict[str, Any]] = {
    row["name"]: row
    for row in tomllib.loads(Path(roofline.__file__).with_name("devices.toml").read_text("utf-8"))["gpu"]
}


def check(spec: DeviceSpec) -> list[str]:
    """What is wrong with a row: figures that do not derive, or ratios that betray a sparse or foreign
    figure.
    """
    exempt = {(e["rule"], e["name"]): e for e in ROWS[spec.name].get("exception", ())}
    found: list[str] = []
    for rule, name, ratio, expect, tolerance in (*_derivations(spec), *_pairs(spec)):
        exemption = exempt.get((rule, name))
        if exemption is not None:
            expect = exemption.get("expect", NAN)
        if math.isnan(expect) or abs(ratio / expect - 1.0) <= tolerance:
            continue
        found.append(f"{spec.name}: {name}, {rule}: ratio {ratio:.4g}, expected {expect:.4g} within {tolerance:.1%}")
    if not spec.source:
        found.append(f"{spec.name}: no source")
    return found


_Finding = tuple[str, str, float, float, float]


def _derivations(spec: DeviceSpec) -> Iterator[_Finding]:
    """Each listed figure against its derivation; a figure without a rate counts as ratio 0."""
    derived = derived_peaks(spec)
    for name, peak in spec.peaks.items():
        if spec.sms is not None:
            # Sheets print FP64 with one or two digits only.
            tolerance = 0.025 if name.endswith("fp64") else 0.015
            yield "derive", name, derived.get(name, 0.0) / peak, 1.0, tolerance
    if spec.bus_bits is not None:
        yield ("derive", "bandwidth", bandwidth_from_clocks(spec.mem_clock, spec.bus_bits) / spec.bandwidth, 1.0, 0.025)


def _pairs(spec: DeviceSpec) -> Iterator[_Finding]:
    """Ratios between two listed figures that hold on every dense sheet."""
    market = ROWS[spec.name].get("market", "")
    half = "tensor_bf16" if "tensor_bf16" in spec.peaks else "tensor_fp16"
    eight = "tensor_fp8" if "tensor_fp8" in spec.peaks and market != "geforce" else half
    int8 = 4.0 if market == "geforce" else 1.0 if eight == "tensor_fp8" else 2.0
    fp64 = {"8.0": 2.0, "9.0": 2.0, "10.0": 1.0}
    rules = [
        ("tensor_bf16", "tensor_tf32", 2.0, 0.0175),
        ("tensor_fp16", "tensor_bf16", 1.0, 0.001),
        ("tensor_fp8", "tensor_bf16", 2.0, 0.01),
        ("tensor_int8", eight, int8, 0.01),
        ("tensor_fp64", "fp64", fp64.get(spec.cc, NAN), 0.03),
    ]
    for name, other, expect, tolerance in rules:
        if name in spec.peaks and other in spec.peaks:
            yield "pair", name, spec.peaks[name] / spec.peaks[other], expect, tolerance
