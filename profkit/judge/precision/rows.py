"""Large tasks in blocks of rows: in float64 a call holds ten times its inputs."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import close, inexact, leaves
from profkit.judge.precision import twin

LARGE = 1 << 28
"""Bytes of inputs and outputs above which float64 is used only in blocks."""
_BLOCKS, _LEAST = 16, 8
"""Number of blocks, and fewest rows to divide."""
_SAME = 26.0
"""Bits in which a block's answer in float64 is the same alone and beside another."""


@dataclass(frozen=True)
class Block:
    """Arguments for the rows from `begin` to `end`, of so many."""

    arguments: list[Any]
    begin: int = 0
    end: int = 1
    of: int = 1

    def places(self, at: Any, count: int | None) -> Any:
        """This block's share of the elements `at` (step or sorted indices) of an output of `count`."""
        if at is None or count is None:
            return None
        size = count // self.of
        low, high = self.begin * size, self.end * size
        if isinstance(at, slice):
            return slice(-low % at.step, None, at.step)
        return at[(at >= low) & (at < high)] - low


def blocks(model: Any, arguments: list[Any], answer: Sequence[Any], view: twin.View) -> list[Block]:
    """The task as a whole if it is small, else in blocks; [] if its rows depend on each other.

    Rows are those of the outputs. In the blocks all inputs of as many rows are divided, or the first of them alone.
    """
    given, out = leaves(arguments), [leaf for leaf in answer if isinstance(leaf, torch.Tensor)]
    if sum(one.numel() * one.element_size() for one in [*given, *out]) <= LARGE:
        return [Block(arguments)]
    lengths = {len(one) if isinstance(one, torch.Tensor) and one.dim() else 0 for one in answer}
    rows = min(lengths, default=0)
    # Indices may point to any row, and beyond the end of a block.
    if len(lengths) > 1 or rows < _LEAST or any(map(_points, [*given, *twin.held(model)])):
        return []
    ends = [rows * n // min(rows, _BLOCKS) for n in range(1 + min(rows, _BLOCKS))]
    for every in (True, False):
        found = [_block(arguments, begin, end, rows, every) for begin, end in itertools.pairwise(ends)]
        try:
            one, two, both = (
                leaves(twin.after(twin.asked(model, block.arguments, view, wide=True)[0]))
                for block in (*found[:2], _block(arguments, 0, ends[2], rows, every))
            )
            if close([torch.cat(pair) for pair in zip(one, two, strict=True)], both, _SAME):
                return found
        except Exception:
            traceback.print_exc()
    return []


def _block(arguments: list[Any], begin: int, end: int, rows: int, every: bool) -> Block:
    seen = itertools.count()

    def part(one: torch.Tensor) -> torch.Tensor:
        if not one.dim() or len(one) != rows or not (every or next(seen) == 0):
            return one
        return one[begin:end]

    return Block(inputs.mapped(arguments, part), begin, end, rows)


def _points(tensor: torch.Tensor) -> bool:
    return not inexact(tensor) and tensor.dtype != torch.bool and tensor.numel() > 1
