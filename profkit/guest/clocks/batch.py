"""Calls back to back, as the clock of another process sees them."""

from __future__ import annotations

from typing import Any

import torch

from profkit.guest import facts

_CYCLES = 2.0e9


def batch(call: Any, count: int, hold: float, device: torch.device) -> None:
    """Make `count` calls back to back, or none.

    The last one takes other inputs than those before it, so that their output does not pass for its own.
    """
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
    """Where element number `index` is in a tensor of this shape."""
    found: list[int] = []
    for size in reversed(shape):
        index, at = divmod(index, size)
        found.append(at)
    return tuple(reversed(found))
