"""PyTorch operators of one call on a CPU: count, time, type, and large results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from profkit.guest.tensors.compare import leaves

LARGE = 1 << 20
"""Bytes of a result too large for a core's own cache."""
_COPIES = {"clone", "copy_", "_to_copy", "contiguous", "cat", "stack"}
_WIDE = (torch.float64, torch.complex128)


def recorded(call: Callable[[], Any]) -> dict[str, float]:
    """Operators of one call as in manifest.Impl; {} for torch.compile's code.

    It would run uncompiled here.
    """
    if "torch._dynamo" in sys.modules:
        return {}
    found = _Recorder()
    with found:
        call()
    return found.told


class Watched(TorchDispatchMode):  # type: ignore[misc]
    """A dispatch mode that sees every operator."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Called by torch; False avoids importing its compiler."""
        return False


class _Recorder(Watched):
    def __init__(self) -> None:
        super().__init__()
        self.told = dict.fromkeys(("calls", "seconds", "fp64", "copies", "allocated"), 0.0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords, told = kwargs or {}, self.told
        began = perf_counter()
        out = func(*args, **keywords)
        took = perf_counter() - began
        given, made = ([x for x in leaves(some) if x.layout is torch.strided] for some in ((args, keywords), out))
        told["calls"] += 1
        told["seconds"] += took
        told["fp64"] += took if any(x.dtype in _WIDE for x in (*given, *made)) else 0.0
        told["copies"] += took if func._opname in _COPIES else 0.0
        if not func.is_view:
            known = {x.untyped_storage().data_ptr() for x in given}
            sizes = [x.untyped_storage().nbytes() for x in made if x.untyped_storage().data_ptr() not in known]
            told["allocated"] += sum(size for size in sizes if size >= LARGE)
        return out
