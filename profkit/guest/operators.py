"""PyTorch operators of one call on a CPU: how many, how long, in which type, and their large results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from profkit.guest.tensors.compare import leaves

LARGE = 1 << 20
"""Bytes from which a result leaves a core's own cache."""
_COPIES = {"clone", "copy_", "_to_copy", "contiguous", "cat", "stack"}
_WIDE = (torch.float64, torch.complex128)


@dataclass
class Operators:
    """Operator calls; their seconds, of these those with fp64 operands and of copies; bytes of LARGE results."""

    calls: float = 0.0
    seconds: float = 0.0
    fp64: float = 0.0
    copies: float = 0.0
    allocated: float = 0.0


def recorded(call: Callable[[], Any]) -> dict[str, float]:
    """Operators of one call; {} where torch.compile is at work, which runs uncompiled under a recorder."""
    if "torch._dynamo" in sys.modules:
        return {}
    with _Recorder() as found:
        call()
    return asdict(found.told)


class _Recorder(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.told = Operators()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Called by torch; False avoids importing its compiler."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords, told = kwargs or {}, self.told
        began = perf_counter()
        out = func(*args, **keywords)
        took = perf_counter() - began
        given, made = leaves((args, keywords)), leaves(out)
        told.calls += 1
        told.seconds += took
        told.fp64 += took if any(one.dtype in _WIDE for one in (*given, *made)) else 0.0
        told.copies += took if func._opname in _COPIES else 0.0
        if not func.is_view:
            known = {one.untyped_storage().data_ptr() for one in given if one.layout is torch.strided}
            sizes = (one.untyped_storage() for one in made if one.layout is torch.strided)
            told.allocated += sum(s.nbytes() for s in sizes if s.nbytes() >= LARGE and s.data_ptr() not in known)
        return out
