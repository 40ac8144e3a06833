"""Properties all draws share: integers, zeros, symmetry, equal halves, order, unit sums.

Labels, masks, triangular matrices, bin edges and probabilities are part of a task, so unusual inputs keep them. Sign
and size are not; `input_domain()` declares those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import same, tensors, thin, whole

_FEW = 16
"""Most distinct integers that count as categories, which allow no other value."""
_LEAST = 8
"""Fewest elements whose order is not accidental."""
_CHANCE = 1.001
"""Ratio of zeros in either draw to zeros in both, up to which zeros are a property."""
_SUM = 1e-3
Has = Callable[[torch.Tensor], bool]


class Common:
    """Common properties of the floating tensors of two draws."""

    def __init__(self, drawn: list[Any], other: list[Any]) -> None:
        self._drawn = drawn
        pairs = list(zip(tensors(drawn), tensors(other), strict=False))
        self._leaves = {n: Leaf(a, b) for n, ((_, a), (_, b)) in enumerate(pairs) if _comparable(a, b)}

    def kept(self, changed: list[Any]) -> list[Any] | None:
        """Changed inputs, as drawn where they lost these properties; None if all are as drawn."""
        leaves = [leaf for _, leaf in tensors(self._drawn)]

        def kept(number: int, leaf: Any) -> Any:
            known = self._leaves.get(number)
            return leaf if known is None else known.kept(leaf, leaves[number])

        found: list[Any] = inputs.numbered(changed, kept)
        return None if inputs.alike(found, self._drawn) and same(found, self._drawn) else found


class Leaf:
    """Common properties of two draws of one tensor."""

    def __init__(self, one: torch.Tensor, other: torch.Tensor) -> None:
        both = whole(one) and whole(other)
        few = torch.cat([thin(one), thin(other)]).unique() if both else one.new_empty(0)
        self._has: list[Has] = [lambda leaf: _among(leaf, few)] if both else []
        # Rotary embeddings take each row of angles twice, the same rows in every draw.
        self._has += [_doubled] if _doubled(one) and _doubled(other) else []
        # Properties of a constant tensor are unknown.
        if torch.equal(one, other):
            return
        # Among millions of normal numbers some are zero by chance.
        zeros = (one == 0) & (other == 0)
        if _CHANCE * int(zeros.sum()) >= int(((one == 0) | (other == 0)).sum()) > 0:
            self._has.append(lambda leaf: not bool(leaf[zeros].any()))
        self._has += [has for has in (_symmetrical, _ordered, *_sums(one.dim())) if has(one) and has(other)]

    def kept(self, leaf: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        """A changed tensor if it has the properties, else as drawn."""
        return leaf if all(has(leaf) for has in self._has) else drawn.clone()


def _comparable(one: Any, other: Any) -> bool:
    pair = one, other
    if not all(isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel() > 1 for leaf in pair):
        return False
    # Non-finite elements are padding of unknown form; one-byte types are not compared.
    return one.shape == other.shape and all(leaf.dtype.itemsize > 1 and bool(leaf.isfinite().all()) for leaf in pair)


def _among(leaf: torch.Tensor, few: torch.Tensor) -> bool:
    """Whether all elements are integers that may be drawn."""
    if len(few) <= _FEW:
        return bool(torch.isin(leaf, few).all())
    return bool(whole(leaf) and leaf.min() >= few[0] and leaf.max() <= few[-1])


def _symmetrical(leaf: torch.Tensor) -> bool:
    return leaf.dim() > 1 and leaf.shape[-1] == leaf.shape[-2] > 1 and bool(torch.equal(leaf, leaf.mT))


def _doubled(leaf: torch.Tensor) -> bool:
    """Whether each row is the same half twice, and the halves are not constant."""
    if leaf.dim() < 1 or leaf.shape[-1] < _LEAST or leaf.shape[-1] % 2:
        return False
    first, second = leaf.chunk(2, -1)
    return torch.equal(first, second) and bool((first != first.flatten()[0]).any())


def _ordered(leaf: torch.Tensor) -> bool:
    return leaf.dim() > 0 and leaf.numel() >= _LEAST <= leaf.shape[-1] and bool((leaf.diff() >= 0).all())


def _sums(axes: int) -> Iterator[Has]:
    """Whether no element is negative and the sums along an axis are one."""
    for axis in range(axes):
        yield lambda leaf, axis=axis: (  # type: ignore[misc]
            leaf.shape[axis] > 1
            and bool((leaf >= 0).all())
            and bool(((leaf.sum(axis, dtype=torch.float32) - 1).abs() < _SUM).all())
        )
