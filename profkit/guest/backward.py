"""Gradients, compared and timed in separate passes.

The weighted sum of all outputs, with drawn weights, is differentiated by floating inputs and shared parameters. Timed
are the backward pass alone, on a prebuilt graph, and forward and backward together, so moved work shows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import tensors

BACKWARD, BOTH = "backward", "both"
PASSES = (BACKWARD, BOTH)
INPUT = "input"


class Gradients(torch.nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Gradients of a model by `wanted`: "input[0]" or a parameter. `alone`: see `ready`."""

    def __init__(self, model: Any, wanted: Sequence[str], *, alone: bool = False) -> None:
        super().__init__()
        self.model = model
        self.wanted, self.alone = tuple(wanted), alone
        self._graph: tuple[list[torch.Tensor], list[torch.Tensor]] | None = None

    def ready(self, arguments: list[Any], _: Sequence[torch.Tensor]) -> None:
        """Make the graph of these inputs for the following calls."""
        self._graph = self._forward(arguments) if self.alone else None

    def forward(self, arguments: list[Any], seeds: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
        outputs, leaves = self._graph or self._forward(arguments)
        pairs = [(output, seed) for output, seed in zip(outputs, seeds, strict=True) if output.requires_grad]
        if not pairs:
            return [None] * len(leaves)
        ends, begin = zip(*pairs, strict=True)
        return list(torch.autograd.grad(ends, leaves, begin, retain_graph=self.alone, allow_unused=True))

    def _forward(self, arguments: list[Any]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """(floating outputs, tensors to differentiate by)."""
        names = iter([name for name, leaf in tensors(arguments, INPUT) if isinstance(leaf, torch.Tensor)])
        leaves = {name: one.requires_grad_() for name, one in parameters(self.model).items() if name in self.wanted}

        def leaf(tensor: torch.Tensor) -> torch.Tensor:
            name = next(names)
            if name in self.wanted:
                tensor = leaves[name] = tensor.detach().requires_grad_()
            return tensor

        with torch.enable_grad():
            outputs = inputs.floating(self.model(*inputs.mapped(arguments, leaf)))
        return outputs, [leaves[name] for name in self.wanted]


def timed(model: Any, of: str, wanted: Sequence[str]) -> Any:
    """The callable to time: the model, or its pass `of` PASSES."""
    return Gradients(model, wanted, alone=of == BACKWARD) if of else model


def parameters(model: Any) -> dict[str, torch.Tensor]:
    """Floating parameters of a model by name; {} unless it is a module."""
    named = model.named_parameters() if isinstance(model, torch.nn.Module) else ()
    return {name: one for name, one in named if one.is_floating_point()}


def shared(wanted: Sequence[str], theirs: Collection[str]) -> tuple[str, ...]:
    """Wanted inputs, and wanted parameters among `theirs`."""
    return tuple(name for name in wanted if name.startswith(f"{INPUT}[") or name in theirs)
