"""Expected gradients of a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from profkit.guest.backward import INPUT, Gradients, is_floating, parameters
from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import Verdict, tensors
from profkit.judge.precision.bits import Precision
from profkit.judge.precision.oracle import Case, Oracle


class Slopes:
    """Expected gradients of a reference by `wanted`. Raises ValueError when it has none."""

    def __init__(self, model: Any, arguments: list[Any], known: Precision) -> None:
        self._model = model
        self._precision = Precision(known.type)
        self._like = [torch.empty_like(one, device="meta") for one in inputs.floating(model(*inputs.clone(arguments)))]
        self._device = next((leaf.device for leaf in inputs.floating(arguments)), torch.device("cpu"))
        names = [name for name, leaf in tensors(arguments, INPUT) if is_floating(leaf)]
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
        """These inputs, and a drawn gradient for each output."""
        seeds = [torch.randn(one.shape, dtype=one.dtype, device=self._device) for one in self._like]
        return [arguments, seeds]

    def answer(self, given: list[Any], wanted: Sequence[str]) -> list[torch.Tensor | None]:
        """The reference's gradients for `data`, which is not changed."""
        found: list[torch.Tensor | None] = Gradients(self._model, wanted)(*inputs.clone(given))
        return found

    def judged(self, got: Any, given: list[Any], wanted: Sequence[str], answer: Any = None) -> Verdict:
        """The verdict on a candidate's gradients; answer: the reference's, where known."""
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
