"""Device and versions of this process."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import platform
import secrets
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch

from roofline.measure import cpu_device
from roofline.measure.gpu_clock import gpu_device

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # parameters of mallopt(3)
_PAD = 64 << 20
_NEVER = 2**31 - 1
_HUGE, _MANY = 32 << 20, 1 << 16
"""Bytes of a block that goes back to the system at once where the heap is not kept, and the most such blocks."""
_LINE = 64
_LINES = 1 << 14
CYCLES = 2.0e9
"""A second of torch.cuda._sleep."""


def choose(wanted: str) -> torch.device:
    """Device to run on. Raises RuntimeError if the wanted one is missing."""
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
    found = gpu_device(torch, device.index or 0) if device.type == "cuda" else cpu_device()
    return {key: value for key, value in asdict(found).items() if value == value and value not in ("", None)}


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
    """Synchronize the device; a no-op on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextlib.contextmanager
def heap_kept(device: torch.device) -> Iterator[None]:
    """Keep huge blocks too inside the block, where calls are timed on a CPU."""
    release(device)
    if device.type == "cpu":
        keep_heap()
    try:
        yield
    finally:
        if device.type == "cpu":
            keep_heap(False)
        release(device)


def release(device: torch.device) -> None:
    """Return freed memory to the system, for another process."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(ctypes.c_size_t(0))


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


def keep_heap(all_: bool = True) -> bool:
    """Keep freed host memory in the process; False if impossible. all_: huge blocks too.

    Otherwise large blocks return to the system, and each 4 KiB then costs a page fault: 7500 in a chain of 36
    operations on 16 MiB, which doubled its time.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    wanted = {_MMAP_MAX: 0 if all_ else _MANY, _MMAP_THRESHOLD: _HUGE, _TRIM_THRESHOLD: _NEVER, _TOP_PAD: _PAD}
    kept = all(library.mallopt(parameter, value) for parameter, value in wanted.items())
    # A random offset: forks share addresses, and times may depend on them.
    library.malloc(ctypes.c_size_t(_LINE * (1 + secrets.randbelow(_LINES))))
    return kept
