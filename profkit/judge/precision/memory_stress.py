"""Weights with long memory: open gates, rotation matrices, decays near one, even terms.

With its initial weights a recurrence forgets, so computing only the last steps may be right to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

LONG = 16
"""Elements of a long axis."""
_SMALL = 1 << 16
"""Size of the largest parameter that counts as a decay, a bias or a table of terms."""
_FADED = 1 / 16


def remembering(model: Any, state: Mapping[str, torch.Tensor], length: int) -> Iterator[dict[str, torch.Tensor]]:
    """Values for some of these tensors, by name, that make a model remember so many steps."""
    together = {name: value for name, value in _layers(model, state, length) if name in state}
    if together:
        yield together
    paths = {name.rpartition(".")[0] for name in together}
    left = {n: v for n, v in state.items() if v.numel() <= _SMALL and n.rpartition(".")[0] not in paths}
    for name, value in left.items():
        if _fading(value):
            yield {name: _even(value)}
    for name, value in left.items():
        # A matrix of both signs was drawn about zero.
        if value.dim() != 2 or 1 in value.shape or not bool((value > 0).any() and (value < 0).any()):
            yield from ({name: changed} for changed in _slower(value, length))
    for name, value in left.items():
        yield from ({name: changed} for changed in _gates(value, length))


def _fading(value: torch.Tensor) -> bool:
    """Whether the numbers at one end of a long axis are far smaller than at the other."""
    for axis, size in enumerate(value.shape):
        if size >= LONG:
            ends = (value.narrow(axis, at, size // 4).to(torch.float64).square().mean() for at in (0, size - size // 4))
            sizes = sorted(float(one) for one in ends)
            if sizes[0] < _FADED**2 * sizes[1]:
                return True
    return False


def _layers(model: Any, state: Mapping[str, torch.Tensor], length: int) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, value) for torch's recurrent layers: gates that keep for `length` steps, rotations."""
    keeps = {torch.nn.GRU: (3, {1: 1.0}), torch.nn.LSTM: (4, {1: 1.0, 0: -0.5})}
    keeps |= {torch.nn.GRUCell: keeps[torch.nn.GRU], torch.nn.LSTMCell: keeps[torch.nn.LSTM]}
    for path, module in model.named_modules():
        if not isinstance(module, (torch.nn.RNNBase, torch.nn.RNNCellBase)):
            continue
        parts, gates = keeps.get(type(module), (1, {}))
        for leaf, tensor in module.named_parameters(recurse=False):
            name = f"{path}.{leaf}" if path else leaf
            value = state.get(name, tensor.detach()).clone()
            if parts == 1:
                yield name, _turning(value) if leaf.startswith("weight_hh") else value / length
            elif leaf.startswith("bias_ih"):
                for gate, times in gates.items():
                    value.chunk(parts)[gate].add_(times * (1.0 + math.log(length)))
                yield name, value


def _slower(value: torch.Tensor, length: int) -> Iterator[torch.Tensor]:
    """Values for a decay that lasts `length` steps."""
    if bool(((value >= 0) & (value <= 1)).all()):
        yield 1 - (1 - value) / length
    yield value / length
    yield value + math.log(length)
    yield value - math.log(length)


def _even(value: torch.Tensor) -> torch.Tensor:
    """Values of one magnitude, signs kept."""
    size = value.to(torch.float64).square().mean().sqrt().to(value)
    steps = torch.linspace(0.75, 1.25, value.numel(), dtype=torch.float64).to(value).view(value.shape)
    return torch.where(value < 0, -size, size) * steps


def _gates(value: torch.Tensor, length: int) -> Iterator[torch.Tensor]:
    """A bias with one of two, three or four parts much larger or smaller."""
    for parts in (2, 3, 4):
        if value.dim() == 1 and len(value) % parts == 0:
            for at in range(parts):
                for sign in (1.0, -1.0):
                    new = value.clone()
                    new.chunk(parts)[at].add_(sign * (1.0 + math.log(length)))
                    yield new


def _turning(value: torch.Tensor) -> torch.Tensor:
    """A matrix that rotates its last columns by one place, other weights small."""
    rows, columns = value.shape
    new = value / (rows * columns) ** 0.5
    new[:, columns - rows :] = torch.eye(rows, dtype=value.dtype, device=value.device).roll(1, 0)
    return new
