"""Time work on a CUDA device by events (with clock and power) and by CUPTI."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from roofline.ceilings import Ceiling
from roofline.device import Device
from roofline.measure.probe import Timing

NAN = math.nan
CALLS = 400
WARM = 50
"""Number of warm-up launches that are dropped."""


class Nvml:
    """Clock, power and memory facts of one device; NaN if NVML does not report them.

    index: of a device without a known UUID, which CUDA_VISIBLE_DEVICES may have renumbered.
    """

    def __init__(self, uuid: str, index: int = 0) -> None:
        self._nvml: Any = None
        # No library, no driver, a hidden device: the timings stand without it.
        with contextlib.suppress(Exception):
            import pynvml

            pynvml.nvmlInit()
            find = pynvml.nvmlDeviceGetHandleByUUID if uuid else pynvml.nvmlDeviceGetHandleByIndex
            self._handle = find(uuid or index)
            self._nvml = pynvml

    def read(self, call: str, *arguments: Any) -> Any:
        """Result of an NVML call on the device, or None."""
        with contextlib.suppress(Exception):  # not there, or not supported on this part
            return getattr(self._nvml, call)(self._handle, *arguments)

    def clock(self, *, memory: bool = False, maximum: bool = False) -> float:
        """SM or memory clock [Hz], current or maximum."""
        kind = None if self._nvml is None else (self._nvml.NVML_CLOCK_MEM if memory else self._nvml.NVML_CLOCK_SM)
        value = self.read("nvmlDeviceGetMaxClockInfo" if maximum else "nvmlDeviceGetClockInfo", kind)
        return NAN if value is None else value * 1e6

    def power(self) -> float:
        """Board power [W]."""
        value = self.read("nvmlDeviceGetPowerUsage")
        return NAN if value is None else value / 1e3

    def state(self) -> dict[str, Any]:
        """Clock rates [Hz], power [W], temperature [C] and throttle reasons (a bit mask) now."""
        temperature = self.read("nvmlDeviceGetTemperature", 0)  # of the GPU itself
        return {
            "sm_clock": self.clock(),
            "mem_clock": self.clock(memory=True),
            "power": self.power(),
            "temperature": NAN if temperature is None else float(temperature),
            "throttle": int(self.read("nvmlDeviceGetCurrentClocksThrottleReasons") or 0),
        }

    def driver(self) -> str:
        """The driver's version, or an empty string."""
        return "" if self._nvml is None else _text(self._nvml.nvmlSystemGetDriverVersion())


def nvml_of(torch: Any, index: int) -> Nvml:
    """NVML's view of a CUDA device."""
    return Nvml(_uuid(torch.cuda.get_device_properties(index)), index)


def gpu_device(torch: Any, index: int) -> Device:
    """A CUDA device as torch and NVML describe it."""
    properties, nvml = torch.cuda.get_device_properties(index), nvml_of(torch, index)
    return Device(
        "cuda",
        properties.name,
        cc=f"{properties.major}.{properties.minor}",
        sms=properties.multi_processor_count,
        l2_bytes=float(getattr(properties, "L2_cache_size", NAN)),
        memory_bytes=float(properties.total_memory),
        max_sm_clock=nvml.clock(maximum=True),
        max_mem_clock=nvml.clock(memory=True, maximum=True),
        bus_bits=nvml.read("nvmlDeviceGetMemoryBusWidth"),
        uuid=_uuid(properties) or _text(nvml.read("nvmlDeviceGetUUID") or ""),
        driver=nvml.driver(),
    )


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _uuid(properties: Any) -> str:
    uuid = str(getattr(properties, "uuid", ""))
    return uuid if not uuid or uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


class GpuTimer:
    """A Timer: an event pair around the calls; clock and power are read meanwhile."""

    def __init__(self, torch: Any, device: Device) -> None:
        self._torch = torch
        self._nvml = Nvml(device.uuid)

    def __call__(self, run: Callable[[], object], calls: int) -> Timing:
        cuda = self._torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        # Holds the queue while the host launches, so that launching is outside the window.
        cuda._sleep(200_000)
        start.record()
        for _ in range(calls):
            run()
        end.record()
        clocks, powers = [], []
        while True:
            clocks.append(self._nvml.clock())
            powers.append(self._nvml.power())
            if end.query():
                break
        end.synchronize()
        seconds = start.elapsed_time(end) / 1e3
        return Timing(seconds, max(clocks), statistics.median(powers))


def launch_ceilings(torch: Any) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    """Median of `launch` [s], for kernels queued on one stream, or why it is unknown."""
    try:
        spans = _spans(torch)
    except Exception as error:  # a profiler that is held by another tool, or missing
        return (), (f"launch: {type(error).__name__}: {error}",)
    if len(spans) < WARM + 50:
        return (), (f"launch: the profiler saw {len(spans)} of {CALLS} launches",)
    return (_launch(spans[WARM:]),), ()


def _spans(torch: Any) -> list[tuple[int, int]]:
    """(begin, end) [ns] of one-element additions queued behind a wait, in order."""
    x = torch.zeros(1, device="cuda")
    x.add_(1)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        torch.cuda._sleep(20_000_000)  # longer than the host needs to queue them
        for _ in range(CALLS):
            x.add_(1)
        torch.cuda.synchronize()
    seen = profiler.profiler.kineto_results.events()
    adds = [e for e in seen if e.device_type() == torch.autograd.DeviceType.CUDA and "elementwise" in e.name()]
    return sorted((e.start_ns(), e.start_ns() + e.duration_ns()) for e in adds)


def _launch(spans: Sequence[tuple[int, int]]) -> Ceiling:
    low, middle, high = statistics.quantiles([(end - begin) * 1e-9 for begin, end in spans], n=4)
    return Ceiling(
        "launch",
        "time",
        middle,
        "measured",
        note=f"CUPTI, median of {len(spans)}",
        variant="an addition of one element",
        spread=(high - low) / middle,
        measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
