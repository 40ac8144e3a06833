"""Fresh inputs by the reference's generator, seeded, on the device."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
import torch

from profkit.guest.tensors.compare import CHUNK, coded, equal, inexact, leaves, numbers, packed, tensors, whole

_CHANCE = torch.default_generator
STIRRED = 64.0
"""Assumed rounding of an answer, in ulps of float32; in a narrower type one of its own."""


def seed_all(seed: int) -> None:
    """Seed the generators of torch, Python and numpy."""
    torch_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % 2**32)


def torch_seed(seed: int) -> None:
    """Seed torch's generators like torch.manual_seed, which loads the compiler and takes 3 ms."""
    _CHANCE.manual_seed(seed)
    if torch.backends.cuda.is_built():
        torch.cuda.manual_seed_all(seed)


def scalable(arguments: Any) -> list[bool]:
    """Whether each leaf may be scaled: floating, not integral as masks are, not of one byte."""
    return [
        isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and not coded(leaf) and not whole(leaf)
        for _, leaf in tensors(arguments)
    ]


def repeated(one: Any, other: Any) -> bool:
    """Whether two draws are equal in every tensor, and one tensor could be scaled."""
    pairs = zip(tensors(one), tensors(other), strict=False)
    same = all(isinstance(b, torch.Tensor) and equal(a, b) for (_, a), (_, b) in pairs if isinstance(a, torch.Tensor))
    return same and any(scalable(one))


def vary(arguments: Any, seed: int) -> None:
    """Scale the `scalable` tensors at random, in place, and roll their longest dimension."""
    chance = random.Random(seed)
    for (_, leaf), wanted in zip(tensors(arguments), scalable(arguments), strict=True):
        factor, share = chance.uniform(0.55, 0.95), chance.random()
        if wanted:
            flat = memory(leaf)
            along = max(range(flat.dim()), key=flat.shape.__getitem__) if flat.dim() else 0
            moved = flat.roll(int(share * flat.shape[along]), along) if flat.dim() else flat
            flat.copy_(moved * factor)


def floating(item: Any) -> list[torch.Tensor]:
    """The floating tensors in any nesting."""
    return [leaf for leaf in leaves(item) if leaf.is_floating_point()]


def to_device(item: Any, device: torch.device) -> Any:
    """Move tensors in any nesting to the device, uncast; views keep strides, meta stays."""

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type in (device.type, "meta"):
            return tensor if tensor.is_meta else tensor.to(device)
        return changed(tensor, lambda base: base.to(device))

    return mapped(item, moved)


def each(item: Any, change: Callable[[Any], Any], *, plain: bool = False) -> Any:
    """The same nesting with every leaf changed, in the order of `tensors`.

    plain: as lists, tuples and dicts with string keys.
    """
    if isinstance(item, Mapping):
        found = {key: each(item[key], change, plain=plain) for key in sorted(item, key=str)}
        return {str(key) if plain else key: found[key] for key in item}
    if isinstance(item, (list, tuple)):
        kind = (tuple if isinstance(item, tuple) else list) if plain else type(item)
        return kind(each(part, change, plain=plain) for part in item)
    return change(item)


def mapped(item: Any, change: Callable[[torch.Tensor], torch.Tensor], *, plain: bool = False) -> Any:
    """The same nesting with every tensor changed; see `each`."""
    return each(item, lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf, plain=plain)


def numbered(item: Any, change: Callable[[int, Any], Any]) -> Any:
    """The same nesting with every leaf changed, by its index in `tensors`."""
    numbers = itertools.count()
    return each(item, lambda leaf: change(next(numbers), leaf))


LINE = 64
"""Alignment to keep, in elements, for vectorized loads."""


def changed(tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A tensor after a change of its elements, with its layout and alignment."""
    if tensor.numel() == 0 or (tensor.is_contiguous() and tensor.storage_offset() % LINE == 0):
        return change(tensor)
    ahead = tensor.storage_offset() % LINE
    start = tensor.storage_offset() - ahead
    base = change(tensor.as_strided((ahead + span(tensor.shape, tensor.stride()),), (1,), start))
    return base.as_strided(tensor.shape, tensor.stride(), ahead)


def span(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Number of elements from the first to the last of a view."""
    return 1 + int(sum((size - 1) * step for size, step in zip(shape, stride, strict=True) if size))


def through(tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A tensor changed in a type that torch can compute with; packed types stay."""
    if packed(tensor):
        return tensor
    if tensor.is_complex():
        return torch.view_as_complex(change(torch.view_as_real(tensor.resolve_conj())).contiguous())
    return change(numbers(tensor)).to(tensor.dtype)


def clone(item: Any) -> Any:
    """A copy that shares no memory but keeps each tensor's layout."""
    return mapped(item, lambda tensor: changed(tensor, torch.Tensor.clone))


def alike(one: Any, other: Any) -> bool:
    """Whether both have the same nesting, layouts, types and other values, for `refill`."""
    mine, theirs = list(tensors(one)), list(tensors(other))
    same = [where for where, _ in mine] == [where for where, _ in theirs]
    return same and all(_form(a) == _form(b) for (_, a), (_, b) in zip(mine, theirs, strict=True))


def _form(leaf: Any) -> tuple[Any, ...]:
    if isinstance(leaf, torch.Tensor):
        return leaf.shape, leaf.stride(), leaf.dtype, leaf.device
    return type(leaf), leaf


def refill(target: Any, source: Any) -> None:
    """Copy the data of `source` into the tensors of `target`, which is `alike`."""
    for (_, mine), (_, theirs) in zip(tensors(target), tensors(source), strict=True):
        if isinstance(mine, torch.Tensor):
            memory(mine).copy_(memory(theirs))


def memory(tensor: torch.Tensor) -> torch.Tensor:
    """Memory from a view's first to its last element, as one row."""
    if tensor.is_contiguous() or tensor.numel() == 0:
        return tensor
    return tensor.as_strided((span(tensor.shape, tensor.stride()),), (1,), tensor.storage_offset())


def stirred(units: float, seed: int, tensor: Any) -> Any:
    """A copy with elements perturbed by up to STIRRED ulps of the largest; not one-byte types."""
    tensor = clone(tensor)
    if isinstance(tensor, torch.Tensor) and inexact(tensor) and tensor.numel() and not coded(tensor):
        flat = memory(tensor)
        flat = torch.view_as_real(flat) if flat.is_complex() and not flat.is_conj() else flat
        parts = flat.view(-1).split(CHUNK)
        step = torch.finfo(flat.dtype).eps
        share = max(step, abs(units) * min(step, torch.finfo(torch.float32).eps))
        largest = torch.stack([part.nan_to_num(0.0, 0.0, 0.0).abs().max() for part in parts]).max()
        size = largest * math.copysign(share, units)
        chance = torch.Generator(flat.device).manual_seed(flat.numel() + seed)
        for part in parts:
            noise = torch.rand(part.shape, generator=chance, device=flat.device).sub_(0.5)
            part.add_(noise.to(flat.dtype) * size)
    return tensor


_COMPARED = (torch.Tensor, bool, int, float, complex, str, type(None))


def refuse_layouts(arguments: Any, output: Any) -> None:
    """Raise TypeError for sparse, nested or quantized tensors, or other types in the answer."""
    for where, leaf in (*tensors(arguments, "inputs"), *tensors(output)):
        if isinstance(leaf, torch.Tensor) and (leaf.layout is not torch.strided or leaf.is_quantized or leaf.is_nested):
            kind = "nested" if leaf.is_nested else str(leaf.dtype if leaf.is_quantized else leaf.layout)
            raise TypeError(f"{where} is {kind.removeprefix('torch.')}: a task takes and gives dense tensors")
    for where, leaf in tensors(output):
        if not isinstance(leaf, _COMPARED):
            raise TypeError(
                f"{where} is a {type(leaf).__name__}: a task gives tensors, numbers, lists, tuples and dicts"
            )


def described(arguments: Any) -> list[str]:
    """Each input in words: "float32 [16, 1024]", strides of a view, other values shortened."""
    found = []
    for _, leaf in tensors(arguments):
        if not isinstance(leaf, torch.Tensor):
            said = str(leaf)[:40]
        else:
            strides = "" if leaf.is_contiguous() else f" strides {list(leaf.stride())}"
            said = f"{str(leaf.dtype).removeprefix('torch.')} {list(leaf.shape)}{strides}"
        found.append(said)
    return found
