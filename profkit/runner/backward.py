"""Gradients: the second thing a task may ask for, compared and timed in passes of their own.

What is differentiated is the sum of every output times a drawn number for each of its elements, by the floating inputs and by
the parameters that both sides have under one name. Timed is the backward pass alone, its graph made before the clock
runs, and forward and backward together: work that one of them leaves to the other shows there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch

from profkit.runner import inputs
from profkit.runner.compare import Verdict, tensors
from profkit.runner.oracle import Case, Oracle, Precision

BACKWARD, BOTH = "backward", "both"
PASSES = (BACKWARD, BOTH)
_INPUT = "input"


class Gradients(torch.nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Called with inputs and with a gradient for each floating output: the gradients of what is `wanted` ("input[0]", or
    a parameter's name), None for what no gradient reaches. `alone`: the graph is made in `ready`, not in the call.
    """

    def __init__(self, model: Any, wanted: Sequence[str], *, alone: bool = False) -> None:
        super().__init__()
        self.model = model
        self.wanted, self.alone = tuple(wanted), alone
        self._graph: tuple[list[torch.Tensor], list[torch.Tensor]] | None = None

    def ready(self, arguments: list[Any], _: Sequence[torch.Tensor]) -> None:
        """Make the graph of these inputs for the calls that follow."""
        self._graph = self._forward(arguments) if self.alone else None

    def forward(self, arguments: list[Any], seeds: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
        outputs, leaves = self._graph or self._forward(arguments)
        pairs = [(output, seed) for output, seed in zip(outputs, seeds, strict=True) if output.requires_grad]
        if not pairs:
            return [None] * len(leaves)
        ends, begin = zip(*pairs, strict=True)
        return list(torch.autograd.grad(ends, leaves, begin, retain_graph=self.alone, allow_unused=True))

    def _forward(self, arguments: list[Any]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """(floating outputs, what they are differentiated by)."""
        names = iter([name for name, leaf in tensors(arguments, _INPUT) if isinstance(leaf, torch.Tensor)])
        leaves = {name: one.requires_grad_() for name, one in parameters(self.model).items() if name in self.wanted}

        def leaf(tensor: torch.Tensor) -> torch.Tensor:
            name = next(names)
            if name in self.wanted:
                tensor = leaves[name] = tensor.detach().requires_grad_()
            return tensor

        with torch.enable_grad():
            outputs = inputs.floating(self.model(*inputs.mapped(arguments, leaf)))
        return outputs, [leaves[name] for name in self.wanted]


def parameters(model: Any) -> dict[str, torch.Tensor]:
    """The floating parameters of a model by name; none of what is no module."""
    named = model.named_parameters() if isinstance(model, torch.nn.Module) else ()
    return {name: one for name, one in named if one.is_floating_point()}


class Slopes:
    """What is right of a reference's gradients. `wanted`: what they are by.

    Raises what the reference raises, ValueError when nothing in it has a gradient.
    """

    def __init__(self, model: Any, arguments: list[Any], known: Precision) -> None:
        self._model = model
        self._precision = Precision(known.type)
        self._like = [torch.empty_like(one, device="meta") for one in inputs.floating(model(*inputs.clone(arguments)))]
        self._device = next((leaf.device for leaf in inputs.floating(arguments)), torch.device("cpu"))
        names = [name for name, leaf in tensors(arguments, _INPUT) if _is_floating(leaf)]
        names += [name for name in parameters(model) if name not in names]
        given = self.data(arguments)
        found = Gradients(model, names)(*inputs.clone(given))
        self.wanted = tuple(name for name, one in zip(names, found, strict=True) if one is not None)
        if not self.wanted:
            raise ValueError("no gradient reaches an input or a parameter of the reference")
        answer = self.answer(given, self.wanted)
        case = self._case(given, self.wanted, answer)
        self._precision.noise = case.noise()
        self._precision.own = case.own()
        self.dead = [name for name, one in zip(self.wanted, answer, strict=True) if one is None or not bool(one.any())]

    def data(self, arguments: list[Any]) -> list[Any]:
        """These inputs, and a gradient for each output drawn for them."""
        seeds = [torch.randn(one.shape, dtype=one.dtype, device=self._device) for one in self._like]
        return [arguments, seeds]

    def answer(self, given: list[Any], wanted: Sequence[str]) -> list[torch.Tensor | None]:
        """The reference's gradients for `data`, which stays as it is."""
        found: list[torch.Tensor | None] = Gradients(self._model, wanted)(*inputs.clone(given))
        return found

    def judged(self, got: Any, given: list[Any], wanted: Sequence[str], answer: Any = None) -> Verdict:
        """The verdict on a candidate's gradients; answer: the reference's, where it is known."""
        if not isinstance(got, list) or len(got) != len(wanted):
            return Verdict("mismatch", "its process gave another number of gradients")
        for name, mine in zip(wanted, got, strict=True):
            if mine is None:
                return Verdict("mismatch", f"no gradient reaches {name}: its output is detached from it")
        case = self._case(given, wanted, answer if answer is not None else self.answer(given, wanted))
        verdict = case.judged(got, strict=True)
        where, _, rest = verdict.what.partition("]")
        if verdict.status != "ok" and where.startswith("output["):
            name = wanted[int(where.removeprefix("output["))]
            return replace(verdict, what=f"the gradient of {name}{rest}")
        return verdict

    def _case(self, given: list[Any], wanted: Sequence[str], answer: Any) -> Case:
        return Oracle(Gradients(self._model, wanted), self._precision).case(given, answer)

    def caveats(self) -> list[dict[str, str]]:
        """What the comparison cannot tell."""
        dead = {
            "what": f"gradients that are zero for the drawn inputs tell nothing: {', '.join(self.dead)}",
            "how_much": "a candidate that leaves them out is right there",
            "fix": "draw inputs on which they depend",
        }
        return [dead] if self.dead else []


def shared(wanted: Sequence[str], theirs: Collection[str]) -> tuple[str, ...]:
    """What is wanted and there: every input, and the parameters of these names."""
    return tuple(name for name in wanted if name.startswith(f"{_INPUT}[") or name in theirs)


def _is_floating(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
