"""A kernel that occupies half of the SMs, or half of each SM, while a call is timed.

One thread per block polls whether it may end; it never stays longer than LONGEST.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from roofline.errors import RooflineError
from roofline.measure.cuda_module import Module, compile_cubin

LONGEST = 0.05
"""Seconds until it ends by itself, lest a call without room wait for ever."""
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
        """Raises RooflineError where it cannot be built."""
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
        """One per SM: of half of them ("whole"), or of all ("half")."""
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
