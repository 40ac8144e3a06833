"""Answers that cost next to nothing to give. All work on thinned outputs: flat, by where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch


def trivial(
    answer: Mapping[str, Any], given: torch.Tensor | None, other: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(name, answer) of what costs next to nothing to give. `given`: an input of the form of the only output;
    `other`: the answer to other inputs.
    """
    yield "zeros", _each(answer, torch.zeros_like)
    yield "ones", _each(answer, torch.ones_like)
    yield "the answer to other inputs", other
    if any(isinstance(leaf, torch.Tensor) and leaf.numel() > 1 for leaf in answer.values()):
        yield "the mean", _each(answer, _mean)
        yield "the first half, zeros behind", _each(answer, lambda leaf: _cut(leaf, 2))
        yield "all but the last block", _each(answer, lambda leaf: _cut(leaf, 16))
    if given is not None:
        yield "an input as it came", dict.fromkeys(answer, given)


def _each(answer: Mapping[str, Any], change: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Any]:
    """The leaves of an output, tensors changed."""
    return {where: change(leaf) if isinstance(leaf, torch.Tensor) else leaf for where, leaf in answer.items()}


def _mean(leaf: torch.Tensor) -> torch.Tensor:
    if not leaf.is_floating_point():
        return torch.zeros_like(leaf)
    return torch.full_like(leaf, float(leaf.to(torch.float64).nanmean()))


def _cut(leaf: torch.Tensor, parts: int) -> torch.Tensor:
    """The leaf with the last 1/parts of its elements zeroed."""
    cut = leaf.clone()
    cut[cut.numel() - max(1, cut.numel() // parts) :] = 0
    return cut
