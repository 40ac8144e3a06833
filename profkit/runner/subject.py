"""An implementation as the clocks see it: a call with rotating inputs whose outputs are watched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from profkit.runner import inputs
from profkit.runner.check import Verdict, compare, tensors

MOST_SETS = 3
MEMORY = 2 << 30
"""Bytes that the input sets of all implementations may take together."""


class ChangedResultError(Exception):
    """A timed call gave another result than the checked one."""


class TimedCall:
    """Call it and the model runs on the current input set; the output is kept for `recheck`.

    Each turn takes the next set, so that a result cached for the last inputs is wrong, and leaves NaN in
    the memory that the allocator will hand out next, so that an output which is not written shows.
    """

    def __init__(self, model: Any, sets: Sequence[list[Any]], expected: Sequence[Any]) -> None:
        self._model = model
        self._sets = [inputs.clone(arguments) for arguments in sets]
        self._expected = expected
        self._turn = -1
        self._output: Any = None
        self.turn()

    def __call__(self) -> Any:
        self._output = self._model(*self._arguments)
        return self._output

    def turn(self) -> None:
        """Go to the next input set and poison the memory of the last output."""
        self._turn = (self._turn + 1) % len(self._sets)
        self._arguments = self._sets[self._turn]
        poison = [_spoiled(leaf) for _, leaf in tensors(self._output) if isinstance(leaf, torch.Tensor)]
        self._output = None
        del poison

    def recheck(self) -> None:
        """Compare the last timed output with the reference's. Raises ChangedResultError."""
        if self._output is None:
            return
        verdict: Verdict = compare(self._output, self._expected[self._turn])
        if verdict.status != "ok":
            raise ChangedResultError(f"a timed call gave another result than the checked one: {verdict.what}")


def _spoiled(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same size and dtype full of NaN, or of the largest integer."""
    if tensor.is_floating_point() or tensor.is_complex():
        return torch.full_like(tensor, float("nan"))
    return torch.full_like(tensor, 1 if tensor.dtype is torch.bool else torch.iinfo(tensor.dtype).max)


def set_count(arguments: list[Any], implementations: int) -> int:
    """How many input sets fit into MEMORY for that many implementations; at least one."""
    size = sum(
        leaf.untyped_storage().nbytes() for _, leaf in tensors(arguments) if isinstance(leaf, torch.Tensor)
    )
    return int(max(1, min(MOST_SETS, MEMORY // max(1, size * implementations))))
