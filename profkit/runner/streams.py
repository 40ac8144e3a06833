"""Does the work stand in line? A call's kernels must run on the caller's stream, or be waited for by it.

The current stream is held by a spin kernel while the candidate is called. Whatever is queued properly
cannot have run yet; an answer that is there already was made where the caller's events do not see it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from profkit.runner import inputs
from profkit.runner.compare import tensors

_CYCLES = 2.0e9
_LEAST, _MOST = 0.01, 0.2
_HEAD_START = 0.004


@dataclass(frozen=True)
class Held:
    """A call behind a held stream: its output; `early`, a copy of what lay in the output while the stream stood
    still (None when it did not stand long enough); `late`, a copy queued on that stream right behind the call.
    """

    output: Any
    early: Any
    late: Any


def behind_hold(call: Callable[[], Any], like: Any, device: torch.device, host: float) -> Held:
    """Call with the current stream held. like: an output of the same form; host: seconds the caller needs."""
    current, aside = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    # Room for the copies is taken first: allocating may wait for the device.
    early, late = inputs.clone(like), inputs.clone(like)
    torch.cuda.synchronize(device)
    held = min(_MOST, max(_LEAST, 4.0 * host + 2 * _HEAD_START))
    torch.cuda._sleep(int(held * _CYCLES))
    released = torch.cuda.Event()
    released.record(current)
    output = call()
    fits = inputs.alike(output, like) and _on(output, device)
    if fits:
        inputs.refill(late, output)
    time.sleep(_HEAD_START)
    with torch.cuda.stream(aside):
        if fits:
            inputs.refill(early, output)
    aside.synchronize()
    standing = not released.query()
    torch.cuda.synchronize(device)
    return Held(output, early if fits and standing else None, late if fits else output)


def own_memory(output: Any, *others: Any) -> bool:
    """Whether no tensor of the output shares memory with these: such a one holds its values before any kernel runs."""
    taken = {_storage(leaf) for other in others for _, leaf in tensors(other) if isinstance(leaf, torch.Tensor)}
    mine = [leaf for _, leaf in tensors(output) if isinstance(leaf, torch.Tensor)]
    return bool(mine) and not any(_storage(leaf) in taken for leaf in mine)


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr()) if tensor.layout is torch.strided else 0


def _on(output: Any, device: torch.device) -> bool:
    leaves = [leaf for _, leaf in tensors(output) if isinstance(leaf, torch.Tensor)]
    return bool(leaves) and all(leaf.device.type == device.type for leaf in leaves)
