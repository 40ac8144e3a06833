"""Timed calls, each on fresh data and with a comparable output."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from profkit.guest import facts
from profkit.guest.backward import Gradients
from profkit.guest.tensors import inputs, state
from profkit.guest.tensors.compare import Verdict, leaves

MOST_SETS = 3
MEMORY = 1 << 30
"""Bytes of all implementations' input sets."""


class ChangedResultError(Exception):
    """A timed call gave a wrong result. `status`: of its implementation."""

    def __init__(self, what: str, status: str = "mismatch") -> None:
        super().__init__(what)
        self.status = status


@dataclass(frozen=True)
class Change:
    """One turn: input set `at` is next and holds `fresh` data from now on."""

    at: int
    fresh: list[Any]


class Data:
    """Input data of one implementation, drawn anew each turn, so a memoized answer is wrong.

    answer: the expected answer to data; None: nothing is compared.
    """

    def __init__(
        self,
        draw: Callable[[], list[Any]],
        count: int,
        answer: Callable[[list[Any]], Any] | None = None,
        judged: Callable[[list[Any], Any, Any], Verdict] | None = None,
    ) -> None:
        self._draw, self._count = draw, count
        self._answer, self._judged = answer, judged
        self.compared = answer is not None and judged is not None
        self._chance = random.SystemRandom()
        self._at = 0
        self._now: list[Any] | None = None

    def turn(self) -> Change:
        """Choose a set at random and draw its new data, valid until the next turn."""
        self._at = self._chance.choice([n for n in range(self._count) if n != self._at] or [self._at])
        self._now = None
        fresh = self._draw()
        self._now = fresh if self.compared else None
        return Change(self._at, fresh)

    def answer(self) -> Any:
        """Expected answer of this turn; None if nothing is compared."""
        return None if self._answer is None else self._answer(self._now or [])

    def check(self, output: Any) -> None:
        """Compare a timed output of this turn. Raises ChangedResultError."""
        if self._judged is None or self._now is None:
            return
        verdict = self._judged(self._now, self.answer(), output)
        if verdict.status == "ok":
            return
        # What still agrees in some bits is less precise, not left out.
        status = "mismatch" if verdict.bits is not None and verdict.bits > 1.0 else "stops-computing"
        raise ChangedResultError(f"in a timed call: {verdict.what}", status)


class TimedCall:
    """A call on the current input set; the output is kept for comparison.

    A turn brings other data and overwrites the last output's memory, so stale or unwritten outputs are wrong. own:
    names of the reference's tensors; None: this is the reference, and its outputs are kept.
    """

    def __init__(self, model: Any, turn: Callable[[], Change], own: Collection[str] | None = ()) -> None:
        self._model, self._turn, self._own = model, turn, own
        self._sets: dict[int, list[Any]] = {}
        self._arguments: list[Any] = []
        self._pending: Change | None = None
        self._copy: Any = None
        self.wanted = False
        """Compare the next sample's output, copied as soon as its time is taken."""
        self.output: Any = None

    def __call__(self) -> Any:
        self.output = plain(self._model(*self._arguments))
        return self.output

    @property
    def last(self) -> Any:
        """Output of this turn's last call, copied when its time was taken; None without a call."""
        return self.output if self._copy is None else self._copy

    def turn(self) -> None:
        """Go to the next input set and overwrite the memory of the last output."""
        change, self._pending = self._pending or self._turn(), None
        output, self.output, self._copy = self.output, None, None
        if self._own is not None:
            model = self._model.model if isinstance(self._model, Gradients) else self._model
            spoil(output, model, self._own)
        # Release the output before the data arrive: a finalizer may run.
        del output
        mine = self._sets.get(change.at)
        if mine is not None and inputs.alike(mine, change.fresh):
            inputs.refill(mine, change.fresh)
        else:
            mine = self._sets[change.at] = inputs.clone(change.fresh)
        # Detach, so hooks that the model put on its arguments do not run.
        self._arguments = inputs.mapped(mine, torch.Tensor.detach)
        if isinstance(self._model, Gradients):
            self._model.ready(*self._arguments)

    def prepare(self) -> None:
        """Fetch the data of the next turn, so that the turn takes no time."""
        self._pending = self._pending or self._turn()

    def witness(self) -> None:
        """Copy the output, if wanted, as soon as its time is taken; let go of the reference's."""
        if self.wanted:
            self._copy = inputs.clone(self.output)
        elif self._own is None:
            self.output = None


def batch(call: TimedCall, count: int, hold: float, device: torch.device) -> None:
    """Make `count` calls back to back for another process's clock; the last with new inputs."""
    call.turn()
    call.prepare()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda._sleep(int(max(hold, 1e-6) * facts.CYCLES))
    for _ in range(count - 1):
        call()
    call.turn()
    if count:
        call()
    facts.settle(device)


def place(index: int, shape: torch.Size) -> tuple[int, ...]:
    """The multi-dimensional index of element number `index`."""
    return tuple(int(at) for at in numpy.unravel_index(index, shape))


def plain(item: Any) -> Any:
    """Convert an output to plain tensors and containers, which ends lazy evaluation in the call."""

    def materialized(tensor: torch.Tensor) -> torch.Tensor:
        wrapped = type(tensor) is not torch.Tensor or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        return tensor.detach().clone().as_subclass(torch.Tensor) if wrapped else tensor

    return inputs.mapped(item, materialized, plain=True)


def spoil(output: Any, model: Any, own: Collection[str], but: Any = ()) -> None:
    """Fill the memory of an output with NaN, or the largest integer: stale outputs become wrong."""
    every = [*_held(model, own), *leaves(but)]
    held = {_storage(leaf) for leaf in every}
    for leaf in leaves(output):
        if leaf.layout is torch.strided and _storage(leaf) not in held:
            # Memory of constants and files is read-only.
            exact = not (leaf.is_floating_point() or leaf.is_complex())
            most = 1 if leaf.dtype is torch.bool else torch.iinfo(leaf.dtype).max if exact else float("nan")
            with contextlib.suppress(RuntimeError), torch.inference_mode():
                inputs.memory(leaf.detach()).fill_(most)


def _held(model: Any, own: Collection[str]) -> Iterator[torch.Tensor]:
    if isinstance(model, torch.nn.Module):
        yield from model.parameters()
        yield from model.buffers()
        yield from (tensor for name, tensor in state.held(model) if name in own)


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr()) if tensor.layout is torch.strided else 0
