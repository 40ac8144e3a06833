"""A loaded implementation, reference or candidate, and the meaning of its exceptions."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

from profkit.guest import backward, facts, operators
from profkit.guest.build import extensions, loading
from profkit.guest.subject import ChangedResultError, plain
from profkit.guest.tensors import inputs, state, weights
from profkit.launch.protocol import Subject

CPU = torch.device("cpu")


@dataclass(eq=False)
class Implementation:
    """A loaded implementation, ready to be called with fresh inputs.

    `match`: its tensors that correspond to the reference's. `kept`: state before every compared call. `own`: names of
    the reference's tensors. `fixed`: see weights. `was`: the model before `rebuild`.
    """

    subject: Subject
    module: ModuleType
    lock: loading.BuildLock
    model: Any
    match: weights.Match = field(default_factory=weights.Match)
    precision: str = ""
    device: torch.device = CPU
    fixed: frozenset[str] = frozenset()
    kept: Mapping[str, torch.Tensor] = field(default_factory=dict)
    own: Sequence[str] = ()
    mode: str = loading.EVAL
    was: Any = None

    def call(self, arguments: list[Any]) -> Any:
        loading.use(self.lock)
        return self.model(*arguments)

    def afresh(self, arguments: list[Any], seed: int) -> Any:
        """Its answer at this generator seed from the initial state, in plain tensors."""
        inputs.seed_all(seed)
        state.put(self.model, self.kept)
        return plain(self.call(arguments))

    def keep(self, values: Mapping[str, torch.Tensor]) -> None:
        """Start every compared call with these values of the reference's state."""
        self.kept = values

    def left(self, arguments: list[Any], seed: int, values: Mapping[str, torch.Tensor]) -> Any:
        """Its state under these names after a call that began with these values."""
        inputs.seed_all(seed)
        return state.left(self.model, values, lambda: self.call(arguments))

    def operators(self, arguments: list[Any], seed: int) -> dict[str, float]:
        """PyTorch operators of a call, see operators.recorded."""
        inputs.seed_all(seed)
        state.put(self.model, self.kept)
        return operators.recorded(lambda: self.call(arguments))

    def parameters(self) -> dict[str, list[int]]:
        return {name: list(one.shape) for name, one in backward.parameters(self.model).items()}

    def gradients(self, given: list[Any], wanted: Sequence[str]) -> Any:
        loading.use(self.lock)
        return backward.Gradients(self.model, wanted)(*given)

    def take(self, values: Mapping[str, torch.Tensor]) -> None:
        """Set its weights by the reference's names."""
        weights.put(self.model, values, self.match.pairs)

    def rebuild(self, spec: Mapping[str, Any], seed: int) -> None:
        """Construct it again from `init`, with `live` for constant weights, then load `weights`."""
        loading.use(self.lock)
        self.was = self.model if self.was is None else self.was
        self.model = loading.construct(self.module, spec, seed, self.device, loading.TYPES[self.precision])

    def restore(self) -> None:
        """Return to the model before `rebuild`."""
        if self.was is not None:
            self.model, self.was = self.was, None


def candidate(
    subject: Subject,
    loaded: tuple[ModuleType, loading.BuildLock],
    spec: Mapping[str, Any],
    seed: int,
    device: torch.device,
    kind: str,
) -> Implementation:
    """Construct a candidate with the reference's arguments and weights; kind: of its precision."""
    module, lock = loaded
    model = loading.construct(module, spec, seed, device, loading.TYPES[kind])
    match = weights.match(model, spec["weights"] or {}, spec["constructed"])
    return Implementation(subject, module, lock, model, match=match, precision=kind, device=device, own=spec["own"])


_ERROR_LINES = 8
"""Lines of a compiler's output to keep, from its first error on."""


@dataclass(frozen=True)
class Failure:
    """`status`: "" for the phase's default; `lost`: the CUDA context is lost too."""

    status: str
    reason: str
    tail: str
    lost: bool = False


def classified(error: Exception, status: str) -> Failure:
    """Classify an exception; default `status`."""
    lines = str(error).strip().splitlines() or [""]
    told = "".join(traceback.format_exception(error)).strip()
    tail = told[-3000:]
    if isinstance(error, ChangedResultError):
        return Failure(error.status, lines[0][:500], tail)
    lost = facts.context_lost(error)
    reason = f"{type(error).__name__}: {lines[0]}"
    if loading.is_compile_error(error):
        status, said = "compile-error", extensions.refusal(str(error))
        if said != lines[0].strip():
            found = said + told.partition(said)[2]
            reason, tail = said, "\n".join(found.splitlines()[:_ERROR_LINES])[:3000]
    return Failure(status, reason[:500], tail, lost)
