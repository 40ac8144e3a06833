"""Clocks: CUDA events behind a held queue, the host's clock, a CPU's wall clock."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from time import perf_counter, process_time

import torch

from profkit.guest import facts
from profkit.guest.clocks.timing import Call, Clock
from roofline.measure.cpu import last_level_cache
from roofline.measure.gpu_clock import nvml_of

_WARM_SECONDS = {"cuda": 0.03, "cpu": 0.1}
_MAX_HOLD = 0.02


class CudaClock(Clock):
    """Event pairs around one call, with the queue held so that launching costs no device time.

    A read of twice the L2 makes the call cold and leaves nothing dirty. A spin kernel holds the queue until event,
    call and event are queued. If the device reaches the first event too early, the sample is unsound and the spin
    grows. Calls that synchronize cannot be held: after `_TRIES` misses the call `waits`.
    """

    _TRIES = 8

    def __init__(self, device: torch.device, *, cold: bool = True) -> None:
        self.method = "event"
        self.note = "CUDA event pair behind a spin kernel: launch cost is outside"
        self.l2 = "cold" if cold else "warm"
        size = int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or 64 << 20
        self.flush_bytes = 2 * size if cold else 0
        self._device, self._nvml = device, nvml_of(torch, device.index or 0)
        self._buffer = torch.ones(self.flush_bytes // 4, dtype=torch.int32, device=device) if cold else None
        self._hold: dict[int, float] = {}
        self._misses: dict[int, int] = {}
        self._reset_persisting = _persisting_reset()

    def warm_up(self, call: Call) -> None:
        call()
        torch.cuda.synchronize(self._device)
        end = perf_counter() + _WARM_SECONDS["cuda"]
        count, hosts = 1, []
        while count < 2 or (perf_counter() < end and count < 1000):
            began = perf_counter()
            call()
            hosts.append(perf_counter() - began)
            torch.cuda.synchronize(self._device)
            count += 1
        self._hold[id(call)] = min(_MAX_HOLD, 2.0 * sorted(hosts)[len(hosts) // 2] + 40e-6)

    def sample(self, call: Call, *, look: bool = True) -> tuple[float, float, bool]:
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        key = id(call)
        held = self._misses.get(key, 0) < self._TRIES
        torch.cuda.synchronize(self._device)
        if self._buffer is not None:
            self._reset_persisting()
            self._buffer.max()
        # The spin marks the begin for CUPTI, even where nothing can be held.
        torch.cuda._sleep(int(self._hold.get(key, 100e-6) * facts.CYCLES) if held else 1)
        began = perf_counter()
        start.record()
        call()
        stop.record()
        host = perf_counter() - began
        sound = not held or not start.query()
        if look:
            witness(call)
        torch.cuda.synchronize(self._device)
        if not sound:
            self._hold[key] = min(_MAX_HOLD, self._hold.get(key, 100e-6) * 1.5)
            self._misses[key] = self._misses.get(key, 0) + 1
            self.waits |= self._misses[key] == self._TRIES
        return start.elapsed_time(stop) * 1e-3, host, sound

    def state(self) -> Mapping[str, float]:
        return self._nvml.state()


def _persisting_reset() -> Callable[[], object]:
    """The driver's call that ends every persisting-L2 window; a no-op without it."""
    try:
        function = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache
    except (OSError, AttributeError):
        return lambda: None
    return lambda: function()


class HostClock(Clock):
    """The caller's view: wall clock from idle to idle device, launch and wait included."""

    method = "host"
    note = "perf_counter from idle to idle device"

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def sample(self, call: Call) -> tuple[float, float, bool]:
        torch.cuda.synchronize(self._device)
        began = perf_counter()
        call()
        torch.cuda.synchronize(self._device)
        seconds = perf_counter() - began
        return seconds, seconds, True


SETTLE = 0.05
"""Least time of flushing before a call where processes take turns [s]. After one flush of 10 ms a copy of the reference
in a process of its own read 0.93x on two idle cores (median of 44 runs, 0.71 to 1.01), with this 0.98x (12 runs, 0.94
to 1.03).
"""


class CpuClock(Clock):
    """Wall clock around one call, inputs evicted from cache; host: CPU seconds of all threads."""

    def __init__(self, *, cold: bool = True, settle: float = 0.0) -> None:
        self._settle = settle
        self.method = "wall"
        self.note = f"perf_counter round the call, {torch.get_num_threads()} threads"
        self.l2 = "cold" if cold else "warm"
        self.flush_bytes = min(2 * last_level_cache(), 256 << 20) if cold else 0
        self._buffer = torch.ones(self.flush_bytes // 8, dtype=torch.int64) if cold else None

    def warm_up(self, call: Call) -> None:
        end = perf_counter() + _WARM_SECONDS["cpu"]
        count = 0
        while count < 3 or (perf_counter() < end and count < 1000):
            call()
            count += 1

    def sample(self, call: Call) -> tuple[float, float, bool]:
        end = perf_counter() + self._settle
        while self._buffer is not None:
            self._buffer.add_(1)
            if perf_counter() >= end:
                break
        began, spent = perf_counter(), process_time()
        call()
        seconds, spent = perf_counter() - began, process_time() - spent
        witness(call)
        return seconds, spent, True


def witness(call: Call) -> None:
    """Let a call that supports it copy its output."""
    look = getattr(call, "witness", None)
    if look is not None:
        look()
