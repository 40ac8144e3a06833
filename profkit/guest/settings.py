"""Restore and report process-wide settings of torch that a candidate changed.

Settings of the precision are in precision.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from profkit.guest.tensors import precision

CALLED = "settings-called"
"""Caveat for settings changed in calls, timed ones included."""
_CUDNN, _MATMUL = torch.backends.cudnn, torch.backends.cuda.matmul


def _flushes() -> bool:
    """Whether this thread flushes denormals to zero."""
    return not bool(torch.tensor(1e-40, dtype=torch.float32, device="cpu") * 0.5)


_OTHERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "autograd": (torch.is_grad_enabled, torch.set_grad_enabled),
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "deterministic algorithms": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "denormals as zeros": (_flushes, torch.set_flush_denormal),
    **{
        name: (partial(getattr, holder, attribute), partial(setattr, holder, attribute))
        for name, holder, attribute in (
            ("cuDNN benchmark", _CUDNN, "benchmark"),
            ("FP16 reductions", _MATMUL, "allow_fp16_reduced_precision_reduction"),
            ("BF16 reductions", _MATMUL, "allow_bf16_reduced_precision_reduction"),
        )
    },
}
Settings = tuple[Mapping[str, Any], Mapping[str, Any]]


def read() -> Settings:
    """(settings of the precision, the other settings), by name."""
    return precision.switches(), {name: get() for name, (get, _) in _OTHERS.items()}


def keep(before: Settings, name: str, events: precision.Listener, *, called: bool = False) -> None:
    """Undo and report changes by a candidate since `read`; called: in a call, as in timed ones."""
    precision.keep(before[0], name, events)
    now = {key: get() for key, (get, _) in _OTHERS.items()}
    switched = [f"{key}: {was} -> {now[key]}" for key, was in before[1].items() if now[key] != was]
    for key, was in before[1].items():
        if now[key] != was:
            _OTHERS[key][1](was)
    if switched:
        where = "in its calls" if called else "for the whole process"
        how = "; so it was timed, and the reference without" if called else "; switched back"
        fix = "leave the process as it was, or switch it for the reference too"
        what = f"settings: {name} switches torch's {where}"
        said = {"what": what, "how_much": "; ".join(switched) + how, "fix": fix}
        events.send("caveat", name, **said, code=CALLED if called else "settings")
