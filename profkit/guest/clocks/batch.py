"""Calls back to back, for the clock of another process."""

from __future__ import annotations

from typing import Any

import torch

from profkit.guest import facts

_CYCLES = 2.0e9


def batch(call: Any, count: int, hold: float, device: torch.device) -> None:
    """Make `count` calls back to back, or none; the last one with other inputs."""
    call.turn()
    call.prepare()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda._sleep(int(max(hold, 1e-6) * _CYCLES))
    for _ in range(count - 1):
        call()
    call.turn()
    if count:
        call()
    facts.settle(device)


def place(index: int, shape: torch.Size) -> tuple[int, ...]:
    """The multi-dimensional index of element number `index`."""
    found: list[int] = []
    for size in reversed(shape):
        index, at = divmod(index, size)
        found.append(at)
    return tuple(reversed(found))
