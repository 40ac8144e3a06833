"""The precision of a task: casts of both sides, and torch's switches of precision."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from types import ModuleType
from typing import Any, Protocol

import torch

from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import tensors

TYPES = {"": None, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_HAS_TF32 = (8, 0)
KINDS = {"matmul": "cuda.matmul", "convolution": "cudnn.conv", "recurrence": "cudnn.rnn"}
"""Operations with a switch of their own on a GPU, and its place in torch.backends."""
_WIDER = {"": "", "on a CPU": "mkldnn", "by oneDNN, convolution": "mkldnn.conv"} | {
    f"by oneDNN, {name}": f"mkldnn.{path}" for name, path in (("matmul", "matmul"), ("recurrence", "rnn"))
}
"""Parent switches, and those of a CPU; the most general first."""


def cast(item: Any, dtype: torch.dtype) -> Any:
    """Floating tensors in any nesting as `dtype`, layout kept; integers and masks unchanged."""
    return inputs.mapped(item, lambda tensor: inputs.changed(tensor, lambda base: base.to(_as(base, dtype))))


def _as(tensor: torch.Tensor, dtype: torch.dtype) -> torch.dtype:
    """The type of a tensor where floating numbers have this one."""
    if tensor.is_complex():
        return torch.complex128 if dtype is torch.float64 else tensor.dtype
    return dtype if tensor.is_floating_point() else tensor.dtype


def apply(module: ModuleType, precision: str) -> None:
    """Cast the tensors of a reference's getters to this precision; "" leaves them unchanged."""
    dtype = TYPES[precision]
    if dtype is None:
        return
    for name in ("get_inputs", "get_init_inputs", "get_more_inputs"):
        if hasattr(module, name):
            setattr(module, name, partial(_got, getattr(module, name), dtype))


def _got(getter: Callable[[], Any], dtype: torch.dtype) -> Any:
    return cast(getter(), dtype)


def types(model: Any, arguments: Any, output: Any) -> dict[str, Any]:
    """The types of a task's inputs, weights and outputs, sorted."""
    weights = model.state_dict() if isinstance(model, torch.nn.Module) else {}
    parts = {"inputs": arguments, "weights": weights, "outputs": output}
    return {name: sorted(set(_names(part))) for name, part in parts.items()}


def _names(part: Any) -> Iterator[str]:
    for _, leaf in tensors(part):
        if isinstance(leaf, torch.Tensor):
            yield str(leaf.dtype).removeprefix("torch.")


def switches() -> dict[str, Any]:
    """Process-wide settings of torch that decide the precision of its operators."""
    found: dict[str, Any] = {}
    for name, (holder, attribute) in _places().items():
        # torch refuses to read an old switch once a new one (2.9 on) was set.
        with contextlib.suppress(RuntimeError, AttributeError):
            found[name] = getattr(holder, attribute)
    with contextlib.suppress(RuntimeError):
        found["float32 matmul precision"] = torch.get_float32_matmul_precision()
    return found | {"default type": torch.get_default_dtype()}


def narrowed(device: torch.device) -> frozenset[str]:
    """Kinds of operations that torch's switches let use TF32 for float32 on this device."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < _HAS_TF32:
        return frozenset()
    return _switched(switches())


def _switched(now: Mapping[str, Any]) -> frozenset[str]:
    """Kinds that these switches let use TF32; before torch 2.9 cuDNN has one switch for all."""
    found = {kind for kind in KINDS if now.get(f"float32 {kind}") == "tf32"}
    if now.get("TF32 in cuDNN"):
        found |= {"convolution", "recurrence"}
    if now.get("float32 matmul precision", "highest") != "highest":
        found.add("matmul")
    return frozenset(found)


def _places() -> dict[str, tuple[Any, str]]:
    backends = torch.backends
    places = {"TF32 in cuDNN": (backends.cudnn, "allow_tf32")}
    for name, path in (_WIDER | KINDS).items():
        with contextlib.suppress(AttributeError):
            places[f"float32 {name}".strip()] = (attrgetter(path)(backends) if path else backends, "fp32_precision")
    return places


def _restore(before: Mapping[str, Any]) -> None:
    torch.set_default_dtype(before["default type"])
    if "float32 matmul precision" in before:
        torch.set_float32_matmul_precision(before["float32 matmul precision"])
    for name, (holder, attribute) in _places().items():
        if name in before:
            with contextlib.suppress(RuntimeError, AttributeError):
                setattr(holder, attribute, before[name])


class Listener(Protocol):
    """Receiver of events."""

    def send(self, kind: str, impl: str = "", **data: Any) -> None: ...


def keep(before: Mapping[str, Any], name: str, events: Listener) -> None:
    """Undo and report changes of the precision by a candidate, which affect the reference too."""
    now = switches()
    changed = [f"{key}: {old} -> {now[key]}" for key, old in before.items() if now.get(key, old) != old]
    if not changed:
        return
    _restore(before)
    events.send(
        "caveat",
        name,
        what=f"precision: {name} switches it for the whole process, the reference included",
        how_much=f"{'; '.join(changed)}; switched back before the reference ran again",
        fix="compute in the task's own precision, or evaluate all in the other one (--precision)",
    )
