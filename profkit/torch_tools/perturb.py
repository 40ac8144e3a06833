"""Time a call under changed conditions: warm L2, half of the SMs, half of each SM.

A condition that does not slow a call down shows its bottleneck: with half of the SMs, it waits for DRAM.
analyzers/perturbation.py concludes. A resident kernel takes half of the SMs, or half of each; one of its threads per
block polls whether it may end.
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from profkit.guest import facts
from profkit.guest.clocks.clocks import CpuClock, CudaClock
from profkit.guest.clocks.timing import Plan, measure
from roofline.errors import RooflineError
from roofline.measure.cuda_module import Module, compile_cubin

ROUNDS, LEAST = 15, 5
"""Rounds of all conditions: planned, and at least."""
ROOM = 4.0
"""Slow-down that shows that a call waited for the resident kernel; half the resources give 2 to 3."""
RESIDENTS = {"half_sms": "whole", "half_warps": "half"}
"""Condition -> shape of the resident kernel."""
LONGEST = 0.05
"""Seconds until the resident kernel ends by itself, so that a call without room does not wait forever."""
KEPT = {"whole": 52, "half": 22}
"""Kernel -> live registers per thread: 1024 threads fill an SM, or half of it."""

_WAIT = """
__device__ __forceinline__ unsigned long long now() {
    unsigned long long at;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(at));
    return at;
}
"""
_STAY = """
extern "C" __global__ void __launch_bounds__(1024) {name}(unsigned* go, unsigned turn, unsigned long long longest) {
    unsigned kept[{kept}];
    #pragma unroll
    for (int i = 0; i < {kept}; i++) {
        kept[i] = threadIdx.x * (i + 1);
        asm volatile("" : "+r"(kept[i]));
    }
    if (threadIdx.x == 0) {
        const unsigned long long began = now();
        while (*(volatile unsigned*)go != turn && now() - began < longest) __nanosleep(400);
    }
    __syncthreads();
    unsigned sum = 0;
    #pragma unroll
    for (int i = 0; i < {kept}; i++) {
        asm volatile("" : "+r"(kept[i]));
        sum ^= kept[i] << (i % 7);
    }
    if (sum == 0x5EED5EEDu) go[1] = sum;
}
"""


def source() -> str:
    kernels = (_STAY.replace("{name}", name).replace("{kept}", str(kept)) for name, kept in KEPT.items())
    return _WAIT + "".join(kernels)


class Resident:
    """`enter(name)` starts it beside the current stream, `leave()` queued there releases it."""

    def __init__(self, device: torch.device) -> None:
        """Raises RooflineError if it cannot be built."""
        properties = torch.cuda.get_device_properties(device)
        try:
            self._module = Module(compile_cubin(source(), f"{properties.major}.{properties.minor}"))
        except OSError as error:
            raise RooflineError(f"the driver's library: {error}") from error
        self._sms = int(properties.multi_processor_count)
        self._flag = torch.zeros(2, dtype=torch.int32, device=device)
        self._aside = torch.cuda.Stream(device)
        self._turn = 0
        torch.cuda.synchronize(device)

    def blocks(self, name: str) -> int:
        """One block per SM: half of them ("whole"), or all ("half")."""
        return self._sms // 2 if name == "whole" else self._sms

    def enter(self, name: str) -> None:
        self._turn += 1
        values: list[Any] = [
            ctypes.c_void_p(self._flag.data_ptr()),
            ctypes.c_uint(self._turn),
            ctypes.c_ulonglong(int(LONGEST * 1e9)),
        ]
        self._module.launch(name, self.blocks(name), 1024, self._aside.cuda_stream, *values)

    def leave(self) -> None:
        self._flag[0] = self._turn


@dataclass
class _Under:
    """A call under one condition: warm, or queued beside a resident kernel."""

    call: Callable[[], Any]
    clock: CudaClock | CpuClock
    device: torch.device
    resident: Resident | None = None
    kernel: str = ""

    def __call__(self) -> Any:
        if self.resident is not None:
            self.resident.enter(self.kernel)
        return self.call()

    def witness(self) -> None:
        if self.resident is not None:
            self.resident.leave()

    def warm_up(self, _: str) -> None:
        self.clock.warm_up(self)
        self.witness()
        facts.settle(self.device)

    def sample(self, _: str) -> tuple[float, float, bool]:
        if self.clock.l2 == "warm":
            self.call()
            facts.settle(self.device)
        return self.clock.sample(self)


def conditions(
    usual: Callable[[], Any], device: torch.device, resident: Resident | None, budget: float
) -> dict[str, list[float]]:
    """Condition -> seconds of its samples, in interleaved rounds.

    budget [s]: after which no round begins. Conditions without room for the call are left out; "warm" repeats a call
    on the same data.
    """
    cold, warm = (CudaClock(device, cold=c) if device.type == "cuda" else CpuClock(cold=c) for c in (True, False))
    plans = {"usual": _Under(usual, cold, device), "warm": _Under(usual, warm, device)}
    if resident is not None:
        plans |= {name: _Under(usual, cold, device, resident, kernel) for name, kernel in RESIDENTS.items()}
    found: dict[str, list[float]] = {name: [] for name in plans}
    for one in measure(plans, cold, Plan(budget, 0.0, LEAST, ROUNDS, trials=1)).samples:
        found[one.impl].append(one.seconds)
    most = ROOM * statistics.median(found["usual"])
    crowded = [name for name in RESIDENTS if name in found and statistics.median(found[name]) > most]
    return {name: seconds for name, seconds in found.items() if name not in crowded}
