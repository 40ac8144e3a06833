"""Ceilings of the CPU by torch: matrix products and streams over big arrays."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from roofline.ceilings import Ceiling
from roofline.device import Device
from roofline.measure.probe import MIB, Probe, Timing, best_ceilings, run_probes, streams, with_dram

SHAPES = {"fp32": (768, 1024), "fp64": (512, 768)}
CACHE = Path("/sys/devices/system/cpu/cpu0/cache")


def measure_cpu(*, rounds: int = 4, budget: float = 2.0) -> tuple[Ceiling, ...]:
    """Measured ceilings fp32, fp64, dram (and dram_read, _write, _copy, _triad).

    Streams count requested bytes, without write-allocate traffic.
    """
    import torch

    threads = torch.get_num_threads()
    results, _ = run_probes([*_matmuls(torch), *_streams(torch)], _timer, rounds=rounds, batch=0.03, budget=budget)
    return with_dram(best_ceilings(results, setting=f"torch, {threads} threads"))


def cpu_device() -> Device:
    """This machine's CPU: its name, cache and memory, and the threads that torch uses."""
    import torch

    return Device(
        "cpu",
        cpu_name(),
        threads=torch.get_num_threads(),
        l2_bytes=float(last_level_cache()),
        memory_bytes=float(psutil.virtual_memory().total),
    )


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Model name in a cpuinfo file, else the system's name of the processor."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def _timer(run: Callable[[], object], calls: int) -> Timing:
    started = time.perf_counter()
    for _ in range(calls):
        run()
    return Timing(time.perf_counter() - started)


def _matmuls(torch: Any) -> Iterator[Probe]:
    for name, dtype in (("fp32", torch.float32), ("fp64", torch.float64)):
        for n in SHAPES[name]:
            a, b, out = (torch.randn(n, n, dtype=dtype) for _ in range(3))
            yield Probe(name, "compute", f"matmul {n}^3", 2.0 * n**3, partial(torch.mm, a, b, out=out))


def _streams(torch: Any) -> Iterator[Probe]:
    """Streams over arrays beyond the cache."""
    n = array_bytes(last_level_cache(), psutil.virtual_memory().available) // 4
    return streams(torch, *(torch.full((n,), value) for value in (0.25, 0.5, 0.75)))


def array_bytes(cache: int, memory: int) -> int:
    """Bytes of a stream array: 4 x cache, 64 to 256 MiB, at most 1/16 of the free memory."""
    wanted = min(max(4 * cache, 64 * MIB), 256 * MIB)
    return max(MIB, min(wanted, memory // 16) // MIB * MIB)


def last_level_cache(folder: Path = CACHE) -> int:
    """Size [B] of the largest cache in a sysfs folder; 32 MiB if unknown."""
    sizes = [32 * MIB]
    for entry in folder.glob("index*/size"):
        found = re.fullmatch(r"(\d+)([KMG]?)", entry.read_text(encoding="ascii").strip())
        if found:
            sizes.append(int(found.group(1)) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[found.group(2)])
    return max(sizes[1:], default=sizes[0])
