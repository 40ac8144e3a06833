"""The device and the versions that this process runs on."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.metadata
import platform
import re
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import torch

from profkit.vendor.nvidia.nvml import driver, text
from roofline.device import Device

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # parameters of mallopt(3)
_PAD = 64 << 20
_NEVER = 2**31 - 1
_LINE = 64
_LINES = 1 << 14
CYCLES = 2.0e9
"""A second of torch.cuda._sleep."""


def choose(wanted: str) -> torch.device:
    """The device to run on. Raises RuntimeError when the wanted one is missing."""
    if wanted == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    if wanted == "cuda":
        build = "this torch was built without CUDA" if torch.version.cuda is None else "torch sees no CUDA device"
        raise RuntimeError(build)
    return torch.device("cpu")


def device_facts(device: torch.device) -> dict[str, Any]:
    """The device as a dict of roofline.Device's fields; unknown ones left out."""
    found = _cuda(device) if device.type == "cuda" else _cpu()
    return {key: value for key, value in asdict(found).items() if value == value and value not in ("", None)}


def _cuda(device: torch.device) -> Device:
    properties = torch.cuda.get_device_properties(device)
    facts: dict[str, Any] = {
        "cc": f"{properties.major}.{properties.minor}",
        "sms": properties.multi_processor_count,
        "memory_bytes": float(properties.total_memory),
        "l2_bytes": float(getattr(properties, "L2_cache_size", float("nan"))),
    }
    with contextlib.suppress(Exception):
        pynvml, handle = nvml(device)
        facts["uuid"] = text(pynvml.nvmlDeviceGetUUID(handle))
        facts["driver"] = text(pynvml.nvmlSystemGetDriverVersion())
        facts["max_sm_clock"] = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM) * 1e6
        facts["max_mem_clock"] = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM) * 1e6
        facts["bus_bits"] = pynvml.nvmlDeviceGetMemoryBusWidth(handle)
    return Device("cuda", properties.name, **facts)


@functools.cache
def nvml(device: torch.device) -> tuple[Any, Any]:
    """(pynvml, handle) of a CUDA device, by UUID: CUDA_VISIBLE_DEVICES changes indices."""
    pynvml = driver()
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    if uuid is not None:
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())
    return pynvml, pynvml.nvmlDeviceGetHandleByIndex(device.index or 0)


def _cpu() -> Device:
    found = None
    with contextlib.suppress(OSError):
        found = re.search(r"^model name\s*: *(.*\S)", Path("/proc/cpuinfo").read_text("utf-8", "replace"), re.M)
    return Device(
        "cpu",
        found[1] if found else platform.processor() or platform.machine(),
        threads=torch.get_num_threads(),
        l2_bytes=float(last_level_cache()),
        memory_bytes=float(psutil.virtual_memory().total),
    )


def last_level_cache() -> int:
    """Bytes of cpu0's largest cache; 32 MiB when it reports none."""
    sizes = [_size(path) for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max(sizes, default=0) or 32 << 20


def _size(path: Path) -> int:
    text = path.read_text("ascii", "replace").strip()
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    digits = text.rstrip("KMG")
    return int(digits) * scale if digits.isdigit() else 0


def versions() -> dict[str, str]:
    found = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda or "",
        "os": f"{platform.system()} {platform.release()}",
    }
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        # Not imported: triton reads the environment, which the candidate may set.
        found["triton"] = importlib.metadata.version("triton")
    return {key: value for key, value in found.items() if value}


def settle(device: torch.device) -> None:
    """Synchronize the device; a CPU needs none."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def context_lost(error: BaseException) -> bool:
    """Whether this CUDA error is sticky: every later call fails with it."""
    text = str(error)
    # An unused device has no context to lose.
    if ("CUDA" not in text and "cuda" not in text) or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def keep_heap() -> bool:
    """Keep freed host memory in the process, as CUDA's allocator does; False if impossible.

    Large blocks may go back to the system, and each 4 KiB then costs a page fault: 7500 in a chain of 36 operations on
    16 MiB, which doubled its time.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    wanted = {_MMAP_MAX: 0, _TRIM_THRESHOLD: _NEVER, _TOP_PAD: _PAD}
    kept = all(library.mallopt(parameter, value) for parameter, value in wanted.items())
    # A random offset: forks share addresses, and times may depend on them.
    library.malloc(ctypes.c_size_t(_LINE * (1 + secrets.randbelow(_LINES))))
    return kept
