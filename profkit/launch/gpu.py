"""GPUs visible to child processes, by the driver, without starting CUDA."""

from __future__ import annotations

import os

from profkit.vendor.nvidia import nvml


def visible() -> list[dict[str, str]]:
    """ "uuid", "name", "driver", "memory" [B] and "cc" of each GPU or slice, in CUDA's order.

    memory: 0 if the driver does not report it, as for a GPU that shares the host's.
    """
    with nvml.Unsaid():
        library = nvml.driver()
        cards, found = nvml.cards(library), []
        for number, part in nvml.chosen(cards, os.environ.get("CUDA_VISIBLE_DEVICES")):
            card = cards[number].handle
            seen = card if part is None else cards[number].slice_handles[part]
            one = {
                "uuid": nvml.text(library.nvmlDeviceGetUUID(seen)),
                "name": nvml.text(library.nvmlDeviceGetName(seen)),
                "driver": nvml.text(library.nvmlSystemGetDriverVersion()),
                "memory": "0",
                "cc": ".".join(map(str, library.nvmlDeviceGetCudaComputeCapability(card))),
            }
            with nvml.Unsaid():
                one["memory"] = str(int(library.nvmlDeviceGetMemoryInfo(seen).total))
            found.append(one)
        return found
    return []


def gpu_present() -> bool:
    """Whether the driver reports a GPU visible to this process."""
    return bool(visible())


def identity() -> dict[str, str]:
    """`visible` for the first GPU or its slice; empty without one."""
    return next(iter(visible()), {})
