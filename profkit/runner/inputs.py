"""Inputs: fresh from the reference's own generator, seeded, on the device."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch


def fresh(module: ModuleType, seed: int, device: torch.device) -> list[Any]:
    """`get_inputs()` with torch's generators at `seed`; tensors moved to the device, the rest left alone."""
    torch.manual_seed(seed)
    return [to_device(item, device) for item in module.get_inputs()]


def to_device(item: Any, device: torch.device) -> Any:
    """Tensors in any nesting of lists, tuples and dicts go to the device; nothing is cast.

    A view keeps its layout: strides are what a strided-copy kernel is about.
    """
    if isinstance(item, torch.Tensor):
        return _move(item, device)
    if isinstance(item, (list, tuple)):
        return type(item)(to_device(part, device) for part in item)
    if isinstance(item, dict):
        return {key: to_device(part, device) for key, part in item.items()}
    return item


def _move(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.device.type == device.type or tensor.is_contiguous():
        return tensor.to(device)
    base = tensor.as_strided((_span(tensor),), (1,), tensor.storage_offset()).to(device)
    return base.as_strided(tensor.shape, tensor.stride(), 0)


def _span(tensor: torch.Tensor) -> int:
    """Elements from the first to the last that the view touches."""
    reach = [(size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size]
    return 1 + int(sum(reach))


def clone(item: Any) -> Any:
    """A copy that shares no memory but keeps each tensor's layout."""
    if isinstance(item, torch.Tensor):
        if item.is_contiguous() or item.numel() == 0:
            return item.clone()
        base = item.as_strided((_span(item),), (1,), item.storage_offset()).clone()
        return base.as_strided(item.shape, item.stride(), 0)
    if isinstance(item, (list, tuple)):
        return type(item)(clone(part) for part in item)
    if isinstance(item, dict):
        return {key: clone(part) for key, part in item.items()}
    return item
