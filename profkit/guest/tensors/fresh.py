"""Fresh input data for every call: element-wise random mixes of a few drawn sets.

A mix of two draws is a draw of the same kind, where elements are independent, and much faster. Properties that all
draws share are kept: such a tensor is mixed by slices or taken whole. A memoized answer is wrong for the next call's
data: this is where memoization is caught.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch

from profkit.guest.tensors import alike, inputs
from profkit.guest.tensors.compare import coded, identical, packed, tensors

_MOST, _MOST_BYTES, _SECONDS = 4, 512 << 20, 0.25
"""Sets to mix from, their bytes, and seconds for drawing more than two."""
_BITS = 32
"""Fewest binary choices in a mix, so that no two are the same."""
_MIXES = 4
"""Mixes of integers that are looked at: the sum of a single one may be right by chance."""
_LEAST = 8
"""Elements along an axis from which order and distinctness are not accidental."""
_FILLED = 0.01
"""Share of zeros in padded or sparse tensors; another tensor may hold their places."""
ELEMENTS, SLICES, WHOLE, JOINT = "elements", "slices", "whole", "joint"
"""Ways to mix: by elements, by slices along the first axis, alone, or with all other joint tensors."""


class Stock:
    """A few drawn sets; `fresh` mixes two of them, or draws where a mix is not usable."""

    def __init__(
        self, draw: Callable[[], list[Any]], usable: Callable[[Any, Any], bool] = lambda _drawn, _mixed: True
    ) -> None:
        """usable(drawn, mixed): whether the task accepts the mix as it does the draw."""
        self._draw = draw
        self._chance = random.SystemRandom()
        began = time.monotonic()
        self._sets = [draw(), draw()]
        self.bytes = sum(one.untyped_storage().nbytes() for one in _leaves(self._sets[0]))
        self._ways = _ways(*self._sets)
        if not self._ways or not usable(self._sets[0], self._mix(None)):
            self._ways, self._sets = [], []
            return
        while len(self._sets) < min(_MOST, _MOST_BYTES // max(1, self.bytes)):
            if time.monotonic() - began > _SECONDS:
                break
            more = draw()
            if not inputs.alike(more, self._sets[0]):
                break
            self._sets.append(more)

    def fresh(self, into: list[Any] | None = None) -> list[Any]:
        """A new set; `into`: an earlier one that may be overwritten."""
        return self._mix(into) if self._ways else self._draw()

    def _mix(self, into: list[Any] | None) -> list[Any]:
        one, other = self._chance.sample(self._sets, 2)
        target = inputs.clone(one) if into is None else into
        rows = zip(_leaves(target), _leaves(one), _leaves(other), self._ways, strict=True)
        for leaf, a, b, way in rows:
            if way in (ELEMENTS, SLICES):
                _mixed(leaf, a, b, way)
            else:
                first = way == JOINT or self._chance.random() < 0.5
                inputs.memory(leaf).copy_(inputs.memory(a if first else b))
        return target


def _leaves(item: Any) -> list[torch.Tensor]:
    """All tensors; one-byte floats, for which torch has no arithmetic, as bytes."""
    leaves = [leaf for _, leaf in tensors(item) if isinstance(leaf, torch.Tensor)]
    return [leaf.view(torch.uint8) if coded(leaf) else leaf for leaf in leaves]


def _mixed(target: torch.Tensor, one: torch.Tensor, other: torch.Tensor, way: str) -> None:
    """Put elements, or slices, of either of two tensors into a third, at random."""
    a, b, into = (inputs.memory(leaf) for leaf in (one, other, target))
    shape = a.shape if way == ELEMENTS else (a.shape[0], *[1] * (a.dim() - 1))
    into.copy_(torch.where(_coins(shape, a.device), a, b))


def _coins(shape: torch.Size | tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Random booleans from a generator of unknown state."""
    count = int(numpy.prod(shape, dtype=numpy.int64))
    if device.type != "cpu":
        made = torch.Generator(device)
        made.seed()
        return torch.randint(0, 2, tuple(shape), dtype=torch.bool, device=device, generator=made)
    bits = numpy.unpackbits(numpy.frombuffer(numpy.random.default_rng().bytes(count // 8 + 1), numpy.uint8))
    return torch.from_numpy(bits[:count]).view(torch.bool).reshape(tuple(shape))


def _ways(one: list[Any], other: list[Any]) -> list[str]:
    """How each tensor of two draws can be mixed; [] where the mixes would be too few."""
    if not inputs.alike(one, other):
        return []
    pairs = list(zip(_leaves(one), _leaves(other), strict=True))
    ways = [_way(a, b) for a, b in pairs]
    if JOINT in ways:
        # Integers may describe the layout of the others.
        padded = (not a.is_floating_point() or _padded(a, b) for a, b in pairs)
        ways = [JOINT if bound and way != WHOLE else way for way, bound in zip(ways, padded, strict=True)]
    coins = 0
    for (a, b), way in zip(pairs, ways, strict=True):
        if way == ELEMENTS:
            coins += int((inputs.memory(a) != inputs.memory(b)).sum())
        elif way == SLICES:
            coins += a.shape[0]
    return ways if coins >= _BITS else []


def _way(one: torch.Tensor, other: torch.Tensor) -> str:
    if one.numel() < 2 or identical(one, other):
        return WHOLE
    if packed(one) or one.is_quantized or one.layout is not torch.strided:
        return WHOLE
    if one.is_floating_point() and not bool((one.isfinite() & other.isfinite()).all()):
        return JOINT
    common = [has for has in _common(one, other) if has(one) and has(other)]
    for way in (ELEMENTS, SLICES):
        sliced = one.is_floating_point() and one.is_contiguous() and one.dim() > 1 and len(one) >= _LEAST
        if way == SLICES and not sliced:
            continue
        if all(_kept(one, other, way, common) for _ in range(1 if one.is_floating_point() else _MIXES)):
            return way
    return JOINT


def _kept(one: torch.Tensor, other: torch.Tensor, way: str, common: list[Callable[[torch.Tensor], bool]]) -> bool:
    """Whether one mix of two tensors has what they have in common."""
    mixed = inputs.clone(one)
    _mixed(mixed, one, other, way)
    return all(has(mixed) for has in common)


def _padded(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether many zeros lie in different places in the two."""
    zeros = one == 0
    return bool(zeros.to(torch.float32).mean() > _FILLED) and not torch.equal(zeros, other == 0)


def _common(one: torch.Tensor, other: torch.Tensor) -> Iterator[Callable[[torch.Tensor], bool]]:
    """Properties that two draws may share, and another set then has to have."""
    if one.is_complex():
        return
    if one.is_floating_point():
        shared = alike.Leaf(one, other)
        yield lambda leaf: torch.equal(shared.mended(leaf, one), leaf)
        for axis in range(one.dim()):
            yield lambda leaf, axis=axis: _unit(leaf, axis)  # type: ignore[misc]
        return
    yield lambda leaf: torch.equal(_sum(leaf), _sum(one)) and torch.equal(_sum(leaf), _sum(other))
    for axis in range(one.dim()):
        yield lambda leaf, axis=axis: torch.equal(_sum(leaf, axis), _sum(one, axis))  # type: ignore[misc]
        yield lambda leaf, axis=axis: _steady(leaf, axis, 1)  # type: ignore[misc]
        yield lambda leaf, axis=axis: _steady(leaf, axis, -1)  # type: ignore[misc]
        yield lambda leaf, axis=axis: _distinct(leaf, axis)  # type: ignore[misc]
    yield lambda leaf: _distinct(leaf.reshape(-1), 0)


def _sum(leaf: torch.Tensor, axis: int | None = None) -> torch.Tensor:
    wide = leaf.to(torch.int64)
    return wide.sum() if axis is None else wide.sum(axis)


def _unit(leaf: torch.Tensor, axis: int) -> bool:
    """Whether the squares along an axis sum to one."""
    return leaf.shape[axis] > 1 and bool(((leaf.to(torch.float32).square().sum(axis) - 1).abs() < 1e-3).all())


def _steady(leaf: torch.Tensor, axis: int, sign: int) -> bool:
    """Whether the numbers along an axis never fall (sign 1), or never rise (-1)."""
    return leaf.shape[axis] >= _LEAST and bool((leaf.to(torch.int64).diff(dim=axis) * sign >= 0).all())


def _distinct(leaf: torch.Tensor, axis: int) -> bool:
    """Whether the numbers along an axis all differ."""
    if leaf.dtype is torch.bool or leaf.shape[axis] < _LEAST:
        return False
    return bool((leaf.to(torch.int64).sort(axis).values.diff(dim=axis) != 0).all())
