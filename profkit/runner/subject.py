"""An implementation as the clocks see it: a call on data it has not seen, whose output is watched."""

from __future__ import annotations

import copy
import gc
import random
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from profkit.runner import habits, inputs, integrity, lazy, pages
from profkit.runner.backward import Gradients
from profkit.runner.compare import Verdict, close, equal, tensors
from profkit.runner.offence import OffenceError

MOST_SETS = 3
MEMORY = 2 << 30
"""Bytes that the input sets of all implementations may take together, the judge's copies among them."""
_DRAWING = 0.35
"""Share of the time since the first turn that drawing whole new sets may take."""
_HEAD_START = 0.25
_MOST_DRAWING = 1.0
"""Seconds of drawing per implementation, of data that can be changed in another way as well."""
_AHEAD, _MOST_AHEAD, _STOCK = 0.25, 16, 256 << 20
"""Seconds and sets that are drawn before the timing begins, at most, and their bytes."""
_LOOKED_AT = 2
"""Of these, what a look at habits takes."""
_FACTORS = ((0.55, 0.7), (0.8, 0.95))
"""Where drawing takes too long, floating data is scaled, in turn to one of these parts of what it was drawn as."""
_WITNESSES = 256
_LOOKS = 1 / 8
_NEAR = 0.05
_STALE = 9.0


class ChangedResultError(OffenceError):
    """A timed call gave another result than the checked one."""

    def __init__(self, what: str, status: str = "mismatch") -> None:
        super().__init__(status, what)


@dataclass(frozen=True)
class Change:
    """What one turn does to the input sets: the set `at` is next. It holds `fresh` data from now on, or what it held
    times `factor`.
    """

    at: int
    fresh: list[Any] | None
    factor: float


class Data:
    """The judge's own copy of one implementation's input sets: other data at every turn, drawn as late as can be."""

    def __init__(self, draw: Callable[[], list[Any]], count: int) -> None:
        self._draw = draw
        self._chance = random.SystemRandom()
        self._spent, self._began = 0.0, time.monotonic()
        self.sets = [draw() for _ in range(count)]
        self._factors = [1.0] * count
        self._scalable = [inputs.scalable(one) for one in self.sets]
        self._stock: list[list[Any]] = []
        self._laid_in = False
        self.at = 0

    def twin(self) -> Data:
        """The same data, nothing of which has been used: for one in another process, which cannot see those of this one."""
        other = copy.copy(self)
        other.sets, other._stock, other._factors = inputs.clone(self.sets), inputs.clone(self._stock), [*self._factors]
        other._scalable = [*self._scalable]
        return other

    def lay_in(self) -> None:
        """Draw now what turns will bring, which nobody knows before they do: from then on they draw nothing that can be
        changed in another way as well.
        """
        self._laid_in, began, size = True, time.monotonic(), max(1, _bytes(self.sets[0]))
        while len(self._stock) < min(_MOST_AHEAD, _STOCK // size):
            if len(self._stock) >= _LOOKED_AT and time.monotonic() - began > _AHEAD:
                break
            self._stock.append(self._draw())

    @property
    def now(self) -> list[Any]:
        """The data of this turn, as it was given."""
        return self.sets[self.at]

    @property
    def others(self) -> list[list[Any]]:
        return [one for number, one in enumerate(self.sets) if number != self.at]

    def turn(self) -> Change:
        """Go on to a set chosen by chance and give it other data."""
        self._go_on()
        share, other = _DRAWING * (time.monotonic() - self._began) + _HEAD_START, any(self._scalable[self.at])
        if self._laid_in and other:
            spare = len(self._stock) > _LOOKED_AT and self._chance.random() < 0.5
            return self._drawn() if spare else self.scaled()
        return self._drawn() if self._spent < (min(share, _MOST_DRAWING) if other else share) else self.scaled()

    def drawn(self) -> Change:
        """Go on to a set chosen by chance and draw its data, however long that takes."""
        self._go_on()
        return self._drawn()

    def for_a_look(self) -> tuple[Callable[[], Change], ...]:
        """How the changes of a look at a candidate's habits are made, one after the other (habits.look)."""
        return self.scaled, self.drawn, self.drawn, self.scaled

    def _go_on(self) -> None:
        self.at = self._chance.choice([n for n in range(len(self.sets)) if n != self.at] or [self.at])

    def _drawn(self) -> Change:
        began = time.monotonic()
        self.sets[self.at] = self._stock.pop() if self._stock else self._draw()
        self._spent += time.monotonic() - began
        self._factors[self.at] = 1.0
        return Change(self.at, self.sets[self.at], 1.0)

    def scaled(self) -> Change:
        """Stay with the set and multiply its data."""
        low, high = _FACTORS[self._factors[self.at] < _FACTORS[1][0]]
        target = self._chance.uniform(low, high)
        factor, self._factors[self.at] = target / self._factors[self.at], target
        scale(self.now, self._scalable[self.at], factor)
        return Change(self.at, None, factor)


def scale(arguments: Any, which: list[bool], factor: float) -> None:
    """Multiply these leaves in place."""
    for (_, leaf), wanted in zip(tensors(arguments), which, strict=True):
        if wanted:
            inputs.memory(leaf).mul_(factor)


class Given:
    """Input sets whose changes come from elsewhere, in the order they are to be made."""

    def __init__(self, sets: list[list[Any]]) -> None:
        self.sets = sets
        self._changes: list[Change] = []

    def add(self, change: Change) -> None:
        self._changes.append(change)

    def turn(self) -> Change:
        return self._changes.pop(0)


class TimedCall:
    """Call it and the model runs on the current input set; the output is kept for `recheck`.

    Each turn brings other data into the next set, so that a result kept from before is wrong, and leaves NaN in the
    memory that the allocator will hand out next, so that an output which is not written shows. `answer` gives what is
    right for data; without it nothing is compared. alone: a call changes what the next one finds, so that none is compared but
    one that is made for it, on data just drawn, after `afresh`.
    """

    def __init__(
        self,
        model: Any,
        data: Data | Given,
        answer: Callable[[list[Any]], Any] | None = None,
        judged: Callable[[list[Any], Any, Any], Verdict] | None = None,
        alone: bool = False,
        afresh: Callable[[], None] = lambda: None,
    ) -> None:
        self._model = model
        self._data = data
        self._alone, self._afresh = alone, afresh
        self._answer = answer
        self._judged = judged
        self._turns = Turns(data.sets)
        self._pending: Change | None = None

    def keep(self) -> None:
        """Have it noticed when somebody puts another model, or other turns, into this call."""
        integrity.keep("its timed call", self, "_model", "_data", "_turns")
        integrity.keep("the turns of its timed call", self._turns, "_sets")

    def __call__(self) -> Any:
        gc.enable()
        self._turns.output = self._model(*self._turns.arguments)
        return self._turns.output

    @property
    def last(self) -> Any:
        """The output of the last call since the turn began; None when there was none."""
        return self._turns.output

    def turn(self) -> None:
        """Go to the next input set and poison the memory of the last output. Raises OffenceError for that output."""
        change, self._pending = self._pending or self._data.turn(), None
        # What an earlier call left is collected before the data come, and nothing from then on until the call: who is told
        # of it there would work ahead of the call.
        gc.collect(0)
        gc.disable()
        self._turns.turn(change)
        if isinstance(self._model, Gradients):
            self._model.ready(*self._turns.arguments)

    def prepare(self) -> None:
        """Have the data of the next turn at hand, so that the turn takes no time."""
        self._pending = self._pending or self._data.turn()

    def refuse_habits(self, name: str, device: torch.device) -> list[dict[str, str]]:
        """Raise OffenceError for a model that works before it is called, or out of answers to like data; else the doubts."""
        data = self._data
        if not isinstance(data, Data):
            return []
        # In one process the threads of others are in its seconds of a core.
        return habits.refuse(name, lambda: habits.by_clock(habits.look(Ahead(self, data.for_a_look()), device)), device)

    def turn_to(self, change: Change) -> None:
        """Go to the input set that this change is of."""
        self._pending = change
        self.turn()

    def settled(self) -> None:
        """Raise OffenceError when the last output is not what it was when its time had been taken."""
        self._turns.settled()

    def witness(self) -> None:
        """Look at the output the moment its time has been taken. Raises OffenceError."""
        self._turns.witness()

    def recheck(self) -> None:
        """Compare the last timed output with the reference's. Raises OffenceError."""
        if self._alone and self._answer is not None and isinstance(self._data, Data):
            self.turn_to(self._data.drawn())
            self._afresh()
            self()
        if self.last is None:
            return
        integrity.check()
        self._turns.settled()
        if self._answer is not None and self._judged is not None and isinstance(self._data, Data):
            recheck(self.last, self._data, self._answer, self._judged)

    def refuse_shared(self, allowed: Collection[str]) -> None:
        """Raise OffenceError when the last output lies in the memory of its inputs, where that is not `allowed`."""
        if lazy.shares(self.last, self._turns.arguments):
            lazy.refuse_shared(allowed)


class Ahead:
    """A timed call whose next turns are made as these say."""

    def __init__(self, call: TimedCall, changes: Iterable[Callable[[], Change]]) -> None:
        self._call, self._changes = call, list(changes)

    def turn(self) -> None:
        self._call.turn_to(self._changes.pop(0)())

    def __call__(self) -> Any:
        return self._call()


class Turns:
    """A candidate's own copies of its input sets, and its output under witness."""

    def __init__(self, sets: list[list[Any]]) -> None:
        self._sets: list[list[Any]] = [inputs.clone(arguments) for arguments in sets]
        self._scalable = [inputs.scalable(one) for one in self._sets]
        self._types = lazy.types(self._sets[0]) if self._sets else []  # of the set that the model has seen last
        self._at = 0
        self._seen: list[torch.Tensor] = []
        self._from = 0.0
        self._chance = random.SystemRandom()
        self.output: Any = None

    @property
    def arguments(self) -> list[Any]:
        """The data of this turn."""
        return self._sets[self._at]

    def turn(self, change: Change) -> None:
        """Bring in the data of a turn; the last output is looked at once more and its memory spoiled."""
        self.settled()
        lazy.refuse_hooked(self.arguments, self._types)
        # The data come last: who sees them first can begin first, and to let go of an answer may wake its maker.
        poison = [_spoiled(leaf) for _, leaf in tensors(self.output) if isinstance(leaf, torch.Tensor)]
        self.output = None
        self._at = change.at
        if change.fresh is None:
            scale(self.arguments, self._scalable[self._at], change.factor)
        else:
            if inputs.alike(self.arguments, change.fresh):
                inputs.refill(self.arguments, change.fresh)
            else:
                self._sets[self._at] = inputs.clone(change.fresh)
            self._scalable[self._at] = inputs.scalable(self.arguments)
        self._types = lazy.types(self.arguments)
        del poison

    def witness(self) -> None:
        """Copy a few elements of the output as they are now, in the caller's stream; see that it is there at all."""
        if self._chance.random() < _LOOKS:
            pages.refuse(self.output)
        self._from = self._chance.random()
        self._seen = list(_few(self.output, self._from))

    def settled(self) -> None:
        """Raise OffenceError when the output has changed since its witness, or was no plain tensor."""
        seen, self._seen = self._seen, []
        if self.output is None or not seen:
            return
        if any(not equal(was, now) for was, now in zip(seen, _few(self.output, self._from), strict=True)):
            late = "side-stream" if any(leaf.is_cuda for leaf in seen) else "works-after-return"
            raise OffenceError(late, "the output of a timed call changed after the call had returned")


def _few(output: Any, begin: float) -> list[torch.Tensor]:
    """Copies of some elements of each tensor of an output, spread over the memory it lies in. begin: where they do, as a
    share of the distance between two of them, which nobody is to know beforehand.
    """
    found = []
    for _, leaf in tensors(output):
        if type(leaf) is torch.Tensor and leaf.layout is torch.strided and leaf.numel() and not leaf.is_meta:
            flat = inputs.memory(leaf.detach()).reshape(-1)
            step = max(1, flat.numel() // _WITNESSES)
            found.append(flat[int(begin * step) :: step].clone())
    return found


def recheck(
    output: Any, data: Data, answer: Callable[[list[Any]], Any], judged: Callable[[list[Any], Any, Any], Verdict]
) -> None:
    """Compare a timed output with the answer to the data of this turn. Raises ChangedResultError saying whose it is."""
    want = answer(data.now)
    lazy.refuse(output, lazy.kinds(want))
    verdict = judged(data.now, want, output)
    if verdict.status == "ok":
        return
    if any(close(output, answer(other), _STALE) for other in data.others):
        raise ChangedResultError("a timed call gave the answer to other inputs", "stops-computing")
    status = "stops-computing" if verdict.status == "nan" or _mostly_wrong(output, want) else "mismatch"
    raise ChangedResultError(f"a timed call gave another result than the checked one: {verdict.what}", status)


def _mostly_wrong(output: Any, want: Any) -> bool:
    """Whether the output has another form, or a quarter of its elements nothing to do with what is wanted: no
    race does that.
    """
    pairs = zip(tensors(output), tensors(want), strict=False)
    return any(_unlike(got, right) for (_, got), (_, right) in pairs)


def _unlike(got: Any, right: Any) -> bool:
    if not (isinstance(got, torch.Tensor) and isinstance(right, torch.Tensor)):
        return type(got) is not type(right)
    if got.shape != right.shape:
        return True
    near = torch.isclose(got.to(torch.float64), right.to(torch.float64), rtol=_NEAR, atol=0.0)
    return bool(near.to(torch.float64).mean() < 0.75)


def _spoiled(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same size and dtype full of NaN, or of the largest integer."""
    if tensor.is_floating_point() or tensor.is_complex():
        return torch.full_like(tensor, float("nan"))
    return torch.full_like(tensor, 1 if tensor.dtype is torch.bool else torch.iinfo(tensor.dtype).max)


def set_count(arguments: list[Any], implementations: int) -> int:
    """How many input sets fit into MEMORY for that many implementations; at least one."""
    return int(max(1, min(MOST_SETS, MEMORY // max(1, 2 * _bytes(arguments) * implementations))))


def _bytes(arguments: list[Any]) -> int:
    return sum(leaf.untyped_storage().nbytes() for _, leaf in tensors(arguments) if isinstance(leaf, torch.Tensor))
