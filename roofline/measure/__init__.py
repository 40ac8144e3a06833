"""Measure ceilings of this machine: the CPU's or a CUDA device's."""

from __future__ import annotations

from roofline.ceilings import Roofline, datasheet_ceilings
from roofline.device import Device, find_spec
from roofline.measure.cpu import cpu_device, measure_cpu
from roofline.measure.gpu import measure_gpu

__all__ = ["cpu_device", "measure_cpu", "measure_gpu", "measure_roofline"]


def measure_roofline(kind: str = "cuda", index: int = 0) -> tuple[Device, Roofline, tuple[str, ...]]:
    """The device, its measured and datasheet ceilings, and why probes failed."""
    if kind == "cpu":
        device = cpu_device()
        return device, Roofline(device.name, measure_cpu()), ()
    device, measured, refused = measure_gpu(index)
    spec = find_spec(device.name, cc=device.cc, sms=device.sms, memory_bytes=device.memory_bytes)
    sheet = Roofline(device.name, datasheet_ceilings(spec) if spec is not None else ())
    return device, sheet.with_(measured), refused
