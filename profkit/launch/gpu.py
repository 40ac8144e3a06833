"""The GPUs that a process started from here gets, by the driver, without starting CUDA."""

from __future__ import annotations

import os
from typing import Any

from profkit.vendor.nvidia import nvml


def _visible(library: Any) -> list[tuple[Any, Any, str]]:
    """(the whole GPU's handle, that of what CUDA sees of it, its UUID) of every visible GPU."""
    cards = nvml.cards(library)
    found = nvml.chosen(cards, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return [
        (card.handle, card.handle, card.uuid)
        if part is None
        else (card.handle, card.slice_handles[part], card.slices[part])
        for card, part in ((cards[number], part) for number, part in found)
    ]


def visible() -> list[dict[str, str]]:
    """ "uuid", "name" and "memory" [B] of every visible GPU or slice, in CUDA's order."""
    with nvml.Unsaid():
        library = nvml.driver()
        return [
            {
                "uuid": uuid,
                "name": nvml.text(library.nvmlDeviceGetName(card)),
                "memory": str(library.nvmlDeviceGetMemoryInfo(seen).total),
            }
            for card, seen, uuid in _visible(library)
        ]
    return []


def gpu_present() -> bool:
    """Whether the driver reports a GPU that this process may see."""
    with nvml.Unsaid():
        return bool(_visible(nvml.driver()))
    return False


def compute_capability() -> str:
    """ "9.0" of the first visible GPU, or "" when there is none."""
    with nvml.Unsaid():
        library = nvml.driver()
        for card, _, _ in _visible(library):
            return ".".join(map(str, library.nvmlDeviceGetCudaComputeCapability(card)))
    return ""


def identity() -> dict[str, str]:
    """{"uuid", "name", "driver"} of the first visible GPU or of its slice; empty without one."""
    with nvml.Unsaid():
        library = nvml.driver()
        for _, seen, _ in _visible(library):
            return {
                "uuid": nvml.text(library.nvmlDeviceGetUUID(seen)),
                "name": nvml.text(library.nvmlDeviceGetName(seen)),
                "driver": nvml.text(library.nvmlSystemGetDriverVersion()),
            }
    return {}
