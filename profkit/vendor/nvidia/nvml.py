"""NVML, the driver's library: GPUs, and which of them CUDA may use."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


def driver() -> Any:
    """pynvml, initialised; it stays open until this process ends.

    Raises RuntimeError with the driver's reason if unavailable.
    """
    try:
        import pynvml
    except ImportError as error:
        raise RuntimeError("the package nvidia-ml-py is not installed") from error
    try:
        _open(pynvml)
    except pynvml.NVMLError as error:
        raise RuntimeError(f"no NVIDIA driver answers: {error}") from error
    return pynvml


@functools.cache
def _open(library: Any) -> None:
    library.nvmlInit()


class Unsaid:
    """A block that queries the driver; skipped without a driver or an answer."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        told = getattr(sys.modules.get("pynvml"), "NVMLError", OSError)
        return isinstance(error, (told, ImportError, RuntimeError, OSError, AttributeError))


@dataclass(frozen=True)
class Card:
    """A GPU by its UUID, and the UUIDs of its MIG slices; handles are NVML's."""

    uuid: str
    slices: tuple[str, ...] = ()
    handle: Any = None
    slice_handles: tuple[Any, ...] = ()


def cards(nvml: Any) -> list[Card]:
    """Every GPU in NVML's order, which is the PCI bus order."""
    return [_card(nvml, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(nvml.nvmlDeviceGetCount())]


def _card(nvml: Any, handle: Any) -> Card:
    slices = tuple(_slices(nvml, handle))
    return Card(_uuid(nvml, handle), tuple(name for name, _ in slices), handle, tuple(one for _, one in slices))


def _uuid(nvml: Any, handle: Any) -> str:
    """UUID of a GPU or a slice, "" if unknown."""
    with Unsaid():
        return text(nvml.nvmlDeviceGetUUID(handle))
    return ""


def _slices(nvml: Any, handle: Any) -> Iterator[tuple[str, Any]]:
    """(UUID, handle) of each MIG slice; none if MIG is off or unsupported."""
    with Unsaid():
        if not nvml.nvmlDeviceGetMigMode(handle)[0]:
            return
        for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            # Numbers without a slice are refused.
            with Unsaid():
                one = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
                yield _uuid(nvml, one), one


def chosen(there: Sequence[Card], visible: str | None) -> list[tuple[int, int | None]]:
    """Devices for CUDA, in its order: (GPU number, slice number or None for the whole GPU).

    visible: CUDA_VISIBLE_DEVICES, None if not set. Like CUDA, this stops at the first invalid word; a GPU cut into
    slices means its first one. Numbers count along the PCI bus, as CUDA does among equal GPUs and with
    CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    everything: list[tuple[int, int | None]] = [
        (number, 0 if card.slices else None) for number, card in enumerate(there)
    ]
    if visible is None:
        return everything
    found: list[tuple[int, int | None]] = []
    for word in visible.split(","):
        match = _match(word.strip(), there, everything)
        if match is None:
            break
        found.append(match)
    return found


def _match(
    word: str, there: Sequence[Card], everything: Sequence[tuple[int, int | None]]
) -> tuple[int, int | None] | None:
    if word.isdecimal():
        return everything[int(word)] if int(word) < len(everything) else None
    if word.startswith("GPU-"):
        return next((everything[n] for n, card in enumerate(there) if card.uuid.startswith(word)), None)
    if not word.startswith("MIG-"):
        return None
    named = ((n, k) for n, card in enumerate(there) for k, uuid in enumerate(card.slices) if uuid.startswith(word))
    # A driver that lists no slices still has only one GPU to cut them from.
    only = iter([(0, None)] if len(there) == 1 and not there[0].slices else [])
    return next(named, None) or next(only, None)


def text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
