"""The GPU that a process started from here gets, by the driver, without starting CUDA."""

from __future__ import annotations

import os
from typing import Any

from profkit.vendor.nvidia import nvml


def _first() -> tuple[Any, Any, Any] | None:
    """(pynvml, handle of the whole GPU, handle of CUDA's part) of the first visible; or None."""
    library = nvml.driver()
    cards = nvml.cards(library)
    found = nvml.chosen(cards, os.environ.get("CUDA_VISIBLE_DEVICES"))[:1]
    return next(((library, cards[n].handle, _handle(cards[n], part)) for n, part in found), None)


def _handle(card: nvml.Card, part: int | None) -> Any:
    """Of what CUDA sees of a card."""
    return card.handle if part is None else card.slice_handles[part]


def visible() -> list[dict[str, str]]:
    """{"uuid", "name", "memory" [B]} of every visible GPU or slice of one, in CUDA's order.

    Empty without a driver.
    """
    with nvml.Unsaid():
        library = nvml.driver()
        cards = nvml.cards(library)
        found = nvml.chosen(cards, os.environ.get("CUDA_VISIBLE_DEVICES"))
        return [
            {
                "uuid": cards[number].uuid if part is None else cards[number].slices[part],
                "name": nvml.text(library.nvmlDeviceGetName(cards[number].handle)),
                "memory": str(library.nvmlDeviceGetMemoryInfo(_handle(cards[number], part)).total),
            }
            for number, part in found
        ]
    return []


def gpu_present() -> bool:
    """Whether the driver reports a GPU that this process may see."""
    with nvml.Unsaid():
        return _first() is not None
    return False


def utilization() -> float:
    """Share of time that the first visible GPU has worked lately; NaN where not known."""
    with nvml.Unsaid():
        found = _first()
        return float("nan") if found is None else found[0].nvmlDeviceGetUtilizationRates(found[1]).gpu / 100.0
    return float("nan")


def compute_capability() -> str:
    """ "9.0" of the first visible GPU, or "" when there is none."""
    with nvml.Unsaid():
        if (found := _first()) is None:
            return ""
        library, card, _ = found
        major, minor = library.nvmlDeviceGetCudaComputeCapability(card)
        return f"{major}.{minor}"
    return ""


def identity() -> dict[str, str]:
    """{"uuid", "name", "driver"} of the first visible GPU or of its slice; empty without one."""
    with nvml.Unsaid():
        if (found := _first()) is None:
            return {}
        library, _, handle = found
        return {
            "uuid": nvml.text(library.nvmlDeviceGetUUID(handle)),
            "name": nvml.text(library.nvmlDeviceGetName(handle)),
            "driver": nvml.text(library.nvmlSystemGetDriverVersion()),
        }
    return {}
