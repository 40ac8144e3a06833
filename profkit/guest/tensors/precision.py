"""The precision of a task: casts of both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import torch

from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import tensors

TYPES = {"": None, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


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
