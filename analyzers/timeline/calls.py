"""Kinds of CUDA calls and of work, by name."""

from __future__ import annotations

import re

import pandas as pd

from analyzers.placement import LAUNCH_LOWER_BOUND

COMMUNICATION = re.compile(r"nccl\w*Kernel|ncclDevKernel|\bnccl", re.IGNORECASE)
BLOCKING = re.compile(r"cu(?:da)?(?:Stream|Device|Event|Ctx)Synchronize|cu(?:da)?Memcpy(?!\w*Async)")
ALLOCATING = re.compile(r"cu(?:da)?(?:Malloc|Free|MemAlloc|MemFree|HostAlloc|MemMap|MemCreate)(?!Async)")
LOADING = re.compile(r"cu(?:da)?(?:Module|Library)Load|nvrtcCompile")
COPYING = re.compile(r"cu(?:da)?Memcpy")
WAITING = re.compile("|".join(one.pattern for one in (BLOCKING, ALLOCATING, LOADING, COPYING)))
"""Calls that may wait for the GPU."""
REPLAYING = re.compile(r"cu(?:da)?GraphLaunch")
SHORT = 2 * LAUNCH_LOWER_BOUND
"""Duration of a kernel that takes the host about as long to launch [s]."""


def matching(names: pd.Series[str], kind: re.Pattern[str]) -> pd.Series[bool]:
    """Mask of names of a kind; fast for few distinct names."""
    return names.isin([name for name in names.unique() if kind.search(str(name))])


def slices_of_work(part: pd.DataFrame) -> dict[str, pd.Series[bool]]:
    """Slice of work -> mask of its launches, each launch in one slice; fills count as copies."""
    copies = part["kind"].isin(("memcpy", "memset"))
    spoken = ~copies & matching(part["kernel"], COMMUNICATION)
    return {"computing": ~copies & ~spoken, "communicating": spoken, "copying": copies}


def parts_of_work(part: pd.DataFrame) -> dict[str, pd.Series[bool]]:
    """Work that a fix may remove -> mask of its launches, if any."""
    slices = slices_of_work(part)
    works = {**slices, "tiny": slices["computing"] & (part["time"] < SHORT)}
    return {name: works[name] for name in ("copying", "communicating", "tiny") if works[name].any()}
