"""The checked calls of a candidate: its answers, and whether it comes by them honestly.

Each checked call is made on tensors it has not seen. Then the contents of these and of the tensors of the call
before change places, and both are asked again: same addresses, other data. An answer kept from before is
wrong then, whatever it was kept by: address, shape, object, or the number of the call. The calls are made in
the process the candidate lives in; what they return is compared with the reference by whoever asked.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
import traceback
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from profkit.runner import busy, facts, inputs, integrity, lazy, leftovers, pages, state, streams
from profkit.runner.compare import Verdict, close, coded, same, tensors
from profkit.runner.offence import OffenceError

MEMORY = 8 << 30
"""Bytes of inputs and outputs above which no second set of them is kept."""
_STEP, _LOOKS = 0.025, 10
"""Seconds between looks at an answer that may still change, and how many there are where something was started."""
_LATE = "works-after-return", "the output changed after the call had returned"
_TRIES = 6
"""Calls that an unwritten output gets to show a mark: the C library does not always give the same block again."""
_CLONES = 4
"""Calls on clones of data that was answered in another way before."""
_PAIRS = 3
_SHORT = 0.01
"""Seconds on a core of a call that is made again only to see how long it takes."""
_FASTER, _SURELY_FASTER = 4.0, 2.0
_WORTH_WHILE = {"wall": 50e-6, "cpu": 200e-6}
_PAGED = 4
_NUDGE = 0.9990234375
_clock, _cpu_clock = time.perf_counter, time.process_time


WIDEST = 0.05


def compare(got: Any, want: Any, _: Any = None) -> Verdict:
    return Verdict("ok" if close(got, want, 11.0) else "mismatch")


class _Spent(NamedTuple):
    """Seconds of a call: by the clock, and of all threads of this process on a core, which load does not change."""

    wall: float
    cpu: float


def _since(began: _Spent) -> _Spent:
    return _Spent(_clock() - began.wall, _cpu_clock() - began.cpu)


def _now() -> _Spent:
    return _Spent(_clock(), _cpu_clock())


@dataclass
class _Before:
    """The last checked call: its tensors, its answer and the seed it was made under."""

    arguments: list[Any]
    output: Any
    seed: int


class Watched:
    """A model, called with care. Raises OffenceError; what the model raises goes through.

    `kinds`: those of the reference's output (lazy.kinds), which are no offence here either; `tolerances`: rtol by
    output, where this problem has another than the usual one.
    """

    kinds: Collection[str] = ()
    tolerances: Mapping[str, float] = {}

    def __init__(self, model: Any, device: torch.device, name: str, events: Any) -> None:
        self._model = model
        self._device = device
        self._name = name
        self._events = events
        self.state: Mapping[str, torch.Tensor] = {}
        self._before: _Before | None = None
        self._times: list[tuple[_Spent, _Spent]] = []
        self._repeats: list[tuple[_Spent, _Spent]] = []
        self._host = 0.0
        self._calls = 0
        self._returned: tuple[Any, Any] | None = None
        self._shared = False

    def __call__(self, *arguments: Any) -> Any:
        """The answer as it was when the call returned. The generators are at the seed they had before the call."""
        seed, given = torch.initial_seed(), list(arguments)
        kept = inputs.clone(given)
        answer, took = self._once(given, seed, self._before.output if self._before else None)
        if not (same(given, kept) and self._is_here(answer)):
            # Changed inputs and answers elsewhere are the caller's to judge.
            self._before = None
            return answer
        if self._shared:
            lazy.refuse_shared(self.kinds)
        self._again(given, kept, answer, seed, took)
        self._stayed()
        return answer

    def _once(self, arguments: list[Any], seed: int, like: Any) -> tuple[Any, _Spent]:
        """(a copy of the answer taken at once, what it took) of one call; freed memory for an output `like` that is marked."""
        self._stayed()
        leftovers.leave(like)
        facts.settle(self._device)
        inputs.seed_all(seed)
        state.put(self._model, self.state)
        tasks, types = _tasks(), lazy.types(arguments)
        began = _now()
        output = self._model(*arguments)
        called = _since(began)
        lazy.refuse(output, self.kinds)
        lazy.refuse_hooked(arguments, types)
        if self._calls % _PAGED == 1:
            # It takes a moment, in which late work could be done unseen: so not after every call.
            pages.refuse(output)
        began = _now()
        copy = inputs.clone(output)
        facts.settle(self._device)
        copied = _since(began)
        took = _Spent(called.wall + copied.wall, called.cpu + copied.cpu)
        self._host = took.wall
        integrity.check()
        self._shared = lazy.shares(output, arguments)
        self._calls += 1
        if not self._is_here(copy):
            return copy, took
        if self._device.type == "cuda" and not same(output, copy):
            # The copy was queued on the caller's stream, behind all that this stream knows of.
            raise OffenceError("side-stream", "the answer came only after the caller's stream was done")
        started = _tasks() > tasks or (self._calls == 1 and threading.active_count() > 1)
        self._finished_late(output, copy, _LOOKS if started else int(self._calls == 1))
        if self._device.type == "cpu" and streams.own_memory(output, arguments, self._state()):
            self._returned = output, copy
        mark = leftovers.found(copy)
        if mark:
            raise OffenceError(*self._named("unwritten-output", mark))
        return copy, took

    def _is_here(self, answer: Any) -> bool:
        """Whether an answer's tensors are on the device, where they can be compared."""
        leaves = (leaf for _, leaf in tensors(answer) if isinstance(leaf, torch.Tensor))
        return all(leaf.device.type == self._device.type for leaf in leaves)

    def _finished_late(self, output: Any, copy: Any, looks: int) -> None:
        """Raise OffenceError when the output changes although the call has returned."""
        for _ in range(looks):
            time.sleep(_STEP)
            facts.settle(self._device)
            if not same(inputs.clone(output), copy):
                raise OffenceError(*_LATE)

    def _stayed(self) -> None:
        """Raise OffenceError when the last answer is no longer what it was at its return. To be asked before anything
        else may change it: another call, which may give the same memory again.
        """
        last, self._returned = self._returned, None
        if last is not None and not same(*last):
            raise OffenceError(*_LATE)

    def _state(self) -> list[torch.Tensor]:
        return list(self._model.state_dict().values()) if isinstance(self._model, torch.nn.Module) else []

    def _again(self, given: list[Any], kept: list[Any], answer: Any, seed: int, took: _Spent) -> None:
        """The same data in other tensors and other data in the same tensors, as far as memory allows."""
        last, self._before = self._before, None
        if 2 * (_size(kept) + _size(answer)) > self._room():
            self._events.send("doubt", self._name, **_unwatched(self._name))
            return
        if last is None or not inputs.alike(last.arguments, given):
            verdict = compare(self._once(inputs.clone(kept), seed, answer)[0], answer, self.tolerances)
            if verdict.status != "ok":
                for _ in range(_TRIES):
                    self._once(inputs.clone(kept), seed, answer)
                raise OffenceError("mismatch", f"a second call on the same data gave another answer: {verdict.what}")
        else:
            inputs.refill(given, last.arguments)
            inputs.refill(last.arguments, kept)
            self._expect(given, last.seed, last.output, answer)
            self._times.append((took, self._expect(last.arguments, seed, answer, last.output)))
            if self._device.type == "cuda":
                self._stands_in_line(kept, seed, answer)
            inputs.refill(given, kept)
            self._repeats.append((took, self._at_best(given)))
            self._remembers(kept)
        self._before = _Before(given, answer, seed)

    def _expect(self, arguments: list[Any], seed: int, want: Any, stale: Any) -> _Spent:
        """What a call took that must give `want`; `stale` is what a candidate that remembers would give."""
        got, took = self._once(arguments, seed, want)
        if compare(got, want, self.tolerances).status == "ok":
            return took
        if compare(got, stale, self.tolerances).status == "ok":
            what = "other data got the answer to the data of the call before"
            raise OffenceError(*self._named("caches-results", what))
        raise OffenceError(*self._unlike(arguments, seed, want, got))

    def _unlike(self, arguments: list[Any], seed: int, want: Any, got: Any) -> tuple[str, str]:
        """(status, text) of an answer that is neither the wanted nor the stale one: by how far it is off, and by what comes
        of the same data in new tensors. A new one may lie where another was that a candidate remembers: then the
        same wrong answer from the same tensors tells.
        """
        verdict, right = compare(got, want, self.tolerances), 0
        for _ in range(_CLONES):
            answer, _ = self._once(inputs.clone(arguments), seed, want)
            right += compare(answer, want, self.tolerances).status == "ok"
        far = verdict.status != "mismatch" or verdict.max_rel is None or verdict.max_rel > WIDEST
        if far and (right == _CLONES or (right and same(self._once(arguments, seed, want)[0], got))):
            what = "right on new tensors, wrong on the same tensors with other data in them"
            return self._named("caches-results", what)
        often = f"{right} of {_CLONES} more were right"
        what = f"its answers to the same data change from call to call ({often}): {verdict.what}"
        return self._named("mismatch", what) if far and not right else ("mismatch", what)

    def _named(self, status: str, what: str) -> tuple[str, str]:
        """(status, text) of an offence: one that passed the same question before has stopped computing."""
        if not self._times:
            return status, what
        return "stops-computing", f"from call {self._calls} on: {what}"

    def _remembers(self, arguments: list[Any]) -> None:
        """Raise OffenceError when data seen before is answered many times faster than new data; where a busy machine may
        have made the one slower, it is a doubt.
        """
        seen = [pairs[-_PAIRS:] for pairs in (self._times, self._repeats)]
        if not any(_faster(pairs, _FASTER) or self._spared(pairs, _FASTER) for pairs in seen):
            return
        watch = busy.Watch()
        # Data that are made of others may be none that a task has to bear: a matrix is positive definite no longer.
        for moved in (True, False):
            try:
                pairs, scaled = self._seen_and_new(inputs.clone(arguments), watch, moved=moved)
                break
            except OffenceError:
                raise
            except Exception:
                traceback.print_exc()
        else:
            return
        like = self._spared(scaled, _FASTER) or _faster(scaled, _FASTER)
        pairs = scaled if like else pairs
        # A core's seconds grow with what others do to its caches: they take more to be sure.
        spared = self._spared(pairs, _FASTER)
        if not (spared or _faster(pairs, _SURELY_FASTER)):
            return
        by = "cpu" if spared else "wall"
        times = sum(getattr(new, by) for new, _ in pairs) / max(1e-9, sum(getattr(old, by) for _, old in pairs))
        found = (
            f"data seen before{' times a factor' if like else ''} is answered {times:.3g} times faster than new data"
        )
        if spared or _faster(pairs, _SURELY_FASTER * watch.slower):
            raise OffenceError("caches-results", found)
        unknown = f"whether {self._name} keeps answers could not be told"
        self._events.send("doubt", self._name, **busy.unsure(unknown, f"{found}, on a busy machine: {watch.said()}"))

    def _seen_and_new(
        self, arguments: list[Any], watch: busy.Watch, *, moved: bool
    ) -> tuple[list[tuple[_Spent, _Spent]], list[tuple[_Spent, _Spent]]]:
        """What calls took on new data and on the same again, and on data unlike any and then on new ones like those before.
        moved: see _unseen.
        """
        pairs: list[tuple[_Spent, _Spent]] = []
        scaled: list[tuple[_Spent, _Spent]] = []
        # Two places that are known before anything is timed: what is made once for a place, of whatever data, is no answer.
        other, place = arguments, inputs.clone(arguments)
        for known in (arguments, place):
            self._timed(known)
        for _ in range(2 * _PAIRS):
            # All calls of a pair follow on another call at once: threads that sleep between calls are awake for them.
            woken, other = _unseen(other, moved=moved), _unseen(_unseen(other, moved=moved), moved=moved)
            inputs.refill(place, woken)
            _nudge(arguments, moved=moved)
            self._timed(place)
            inputs.refill(place, other)
            unlike, new = self._timed(place), self._timed(arguments)
            pairs.append((new, self._timed(arguments)))
            scaled.append((unlike, new))
            watch.look()
        return pairs, scaled

    def _spared(self, pairs: list[tuple[_Spent, _Spent]], times: float) -> bool:
        """Whether the second calls spared this process its work on a CPU, however busy the machine. Of many pairs one may differ:
        who remembers by a part of the data takes some for known by chance, and one in forty was acquitted by that.
        """
        return self._device.type == "cpu" and _faster(pairs, times, "cpu", but=int(len(pairs) > _PAIRS))

    def _timed(self, arguments: list[Any]) -> _Spent:
        self._stayed()
        facts.settle(self._device)
        began = _now()
        self._model(*arguments)
        facts.settle(self._device)
        return _since(began)

    def _at_best(self, arguments: list[Any]) -> _Spent:
        """The least of a few calls, which a busy machine does not make look like a new one; of one call that takes long."""
        tries = [self._timed(arguments)]
        while len(tries) < _PAIRS and tries[0].cpu < _SHORT:
            tries.append(self._timed(arguments))
        return _Spent(min(one.wall for one in tries), min(one.cpu for one in tries))

    def _stands_in_line(self, arguments: list[Any], seed: int, answer: Any) -> None:
        """Raise OffenceError when an answer is there while the caller's stream stands still, or not yet there when
        that stream is done. The data is new: nothing in memory is the answer to it.
        """
        leftovers.leave(answer)
        mine = _unseen(arguments)
        inputs.seed_all(seed)
        try:
            held = streams.behind_hold(lambda: self._model(*mine), answer, self._device, self._host)
        except OffenceError:
            raise
        except Exception as error:
            if facts.context_lost(error):
                raise
            # As above: other numbers of the same signs and order are none that it need not bear.
            mine = _unseen(arguments, moved=False)
            inputs.seed_all(seed)
            held = streams.behind_hold(lambda: self._model(*mine), answer, self._device, self._host)
        if compare(held.output, answer).status == "ok" or not streams.own_memory(held.output, mine, self._state()):
            return
        if held.early is not None and compare(held.early, held.output).status == "ok":
            raise OffenceError("side-stream", "the answer was there while the caller's stream was still held")
        if compare(held.late, held.output).status != "ok":
            raise OffenceError("side-stream", "the answer came only after the caller's stream was done")

    def forget(self) -> None:
        """Let go of the tensors that were kept for the next checked call."""
        self._before = None

    def _room(self) -> int:
        """Bytes that second sets may take."""
        if self._device.type != "cuda":
            return MEMORY
        return min(MEMORY, int(torch.cuda.mem_get_info(self._device)[0]) // 4)


def _faster(pairs: list[tuple[_Spent, _Spent]], times: float, by: str = "wall", but: int = 0) -> bool:
    """Whether a middling second number is at least `times` smaller than every first but so many: load only ever adds to some."""
    first = float(sorted(getattr(new, by) for new, _ in pairs)[but])
    second = float(statistics.median(getattr(old, by) for _, old in pairs))
    return first > times * second and first - second > _WORTH_WHILE[by]


def _unwatched(name: str) -> dict[str, str]:
    return {
        "what": f"{name} was not asked again: no memory for a second set of its inputs",
        "how_much": "answers kept from call to call, and work on other streams, would not show",
        "fix": "check it on smaller inputs as well (get_more_inputs)",
    }


def _unseen(arguments: list[Any], *, moved: bool = True) -> list[Any]:
    """Other data of the same kind: floating numbers a quarter smaller and, with `moved`, one place on."""
    mine: list[Any] = inputs.clone(arguments)
    for _, leaf in tensors(mine):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.dim():
            # Where several elements are one in memory, they cannot be written by their places.
            memory = inputs.memory(leaf)
            woken = memory.roll(1, -1) if moved else memory
            memory.copy_(inputs.through(woken, lambda wide: wide * 0.75))
    return mine


def _nudge(arguments: list[Any], *, moved: bool = True) -> None:
    """Change the data a little, in place; with `moved` whole numbers change places, but for those in order."""
    for _, leaf in tensors(arguments):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and not coded(leaf):
            inputs.memory(leaf).mul_(_NUDGE)
        elif moved and isinstance(leaf, torch.Tensor) and leaf.is_contiguous() and not leaf.is_complex():
            leaf.copy_(inputs.rolled(leaf, 1))


def _size(item: Any) -> int:
    return sum(leaf.numel() * leaf.element_size() for _, leaf in tensors(item) if isinstance(leaf, torch.Tensor))


def _tasks() -> int:
    """Threads of this process, Python's or not."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()
