"""Process-wide torch settings that a candidate may change: read, restored and reported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

import torch

_HAS_TF32 = (8, 0)
_KINDS = {"matmul": "cuda.matmul", "convolution": "cudnn.conv", "recurrence": "cudnn.rnn"}
"""Kinds of operation -> their precision switch in torch.backends, on a GPU."""
_PLACES = {
    "float32": "",
    "float32 on a CPU": "mkldnn",
    "float32 by oneDNN, convolution": "mkldnn.conv",
    "float32 by oneDNN, matmul": "mkldnn.matmul",
    "float32 by oneDNN, recurrence": "mkldnn.rnn",
    **{f"float32 {kind}": place for kind, place in _KINDS.items()},
}
"""Paths in torch.backends that decide the precision, most general first."""
Setting = tuple[Callable[[], Any], Callable[[Any], Any]]
Send = Callable[..., None]
"""Sends an event: kind, implementation, data."""


def _attribute(holder: Any, name: str) -> Setting:
    return partial(getattr, holder, name), partial(setattr, holder, name)


def _flushes() -> bool:
    """Whether this thread flushes denormals to zero."""
    return not bool(torch.tensor(1e-40, dtype=torch.float32, device="cpu") * 0.5)


_MATMUL = torch.backends.cuda.matmul
_OTHERS: dict[str, Setting] = {
    "autograd": (torch.is_grad_enabled, torch.set_grad_enabled),
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "deterministic algorithms": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "denormals as zeros": (_flushes, torch.set_flush_denormal),
    "cuDNN benchmark": _attribute(torch.backends.cudnn, "benchmark"),
    "FP16 reductions": _attribute(_MATMUL, "allow_fp16_reduced_precision_reduction"),
    "BF16 reductions": _attribute(_MATMUL, "allow_bf16_reduced_precision_reduction"),
}


def _precision() -> dict[str, Setting]:
    """The settings that decide the precision of torch's operators."""
    found: dict[str, Setting] = {
        "default type": (torch.get_default_dtype, torch.set_default_dtype),
        "float32 matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        "TF32 in cuDNN": _attribute(torch.backends.cudnn, "allow_tf32"),
    }
    for name, place in _PLACES.items():
        with contextlib.suppress(AttributeError):
            found[name] = _attribute(attrgetter(place)(torch.backends) if place else torch.backends, "fp32_precision")
    return found


def read() -> dict[str, Any]:
    """Every setting by name."""
    found = {}
    for name, (get, _) in (_precision() | _OTHERS).items():
        # torch refuses to read an old switch once a new one (2.9 on) was set.
        with contextlib.suppress(RuntimeError, AttributeError):
            found[name] = get()
    return found


def narrowed(device: torch.device) -> frozenset[str]:
    """Kinds of operations that torch's switches allow to use TF32 for float32 on this device."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < _HAS_TF32:
        return frozenset()
    now = read()
    found = {kind for kind in _KINDS if now.get(f"float32 {kind}") == "tf32"}
    # Before torch 2.9 cuDNN has one switch for all.
    if now.get("TF32 in cuDNN"):
        found |= {"convolution", "recurrence"}
    if now.get("float32 matmul precision", "highest") != "highest":
        found.add("matmul")
    return frozenset(found)


@contextlib.contextmanager
def kept(name: str, send: Send, *, called: bool = False) -> Iterator[None]:
    """Undo and report the block's changes of torch's settings. called: made by a call."""
    before = read()
    try:
        yield
    finally:
        _keep(before, name, send, called)


def _keep(before: Mapping[str, Any], name: str, send: Send, called: bool) -> None:
    now = read()
    changed = {key: f"{key}: {was} -> {now[key]}" for key, was in before.items() if now.get(key, was) != was}
    if not changed:
        return
    # One switch of the precision moves others.
    back = _precision() if changed.keys() - _OTHERS.keys() else {}
    back |= {key: one for key, one in _OTHERS.items() if key in changed}
    for key, (_, put) in back.items():
        with contextlib.suppress(RuntimeError, AttributeError, KeyError):
            put(before[key])
    where = "in its calls" if called else "for the whole process"
    how = "; it was timed with these, the reference without" if called else "; switched back"
    send(
        "caveat",
        name,
        what=f"settings: {name} switches torch's {where}",
        how_much="; ".join(changed.values()) + how,
        fix="leave the process unchanged, or change it for the reference too",
        code="settings-called" if called else "settings",
    )
