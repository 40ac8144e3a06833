"""Timed calls of a candidate in another process: its claims, and the judge's own view."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from profkit.guest.clocks.cupti import Activity, CuptiError
from profkit.guest.clocks.timing import Clock, Sample
from profkit.guest.subject import ChangedResultError, Data, place
from profkit.guest.tensors.compare import tensors
from profkit.judge.remote import Remote, RemoteError

_PROBES = 8
_PROBE_RTOL = 0.05
"""Probes show that a result is there; precision is checked on whole outputs."""


class RemoteCall:
    """A timed call in another process. of, wanted: a pass of backward.PASSES and its gradients."""

    def __init__(
        self,
        process: Remote,
        data: Data,
        of: str = "",
        wanted: Sequence[str] = (),
        alone: bool = False,
    ) -> None:
        self.remote = process
        self._data = data
        self._alone = alone
        self._chance = random.SystemRandom()
        self.wanted = False
        self.remote.phase, self.remote.turns = "check", []
        self.remote.ask("ready", of=of, wanted=list(wanted))

    def __call__(self) -> None:
        self.remote.phase = "time"
        self.remote.ask("run", wanted=self.wanted)

    def turn(self) -> None:
        """Queue other data for the next request; the last output's memory is overwritten there."""
        self.remote.phase = "time"
        self.remote.turns.append(self._change())

    def _change(self) -> dict[str, Any]:
        change = self._data.turn()
        return {"at": change.at, "given": self.remote.hand_over(change.fresh)}

    def recheck(self) -> None:
        """Fetch the last output and compare it with the reference's. Raises ChangedResultError."""
        if not self._data.compared:
            return
        if self._alone:
            self.remote.turns.append({**self._change(), "afresh": True})
            self()
        file = self.remote.fresh_file()
        self.remote.ask("output", output=file.name)
        if (last := self.remote.output(file)) is None:
            raise ChangedResultError("a timed call left no answer", "stops-computing")
        self._data.check(last)

    def warm_up(self, method: str) -> int:
        return int(self.remote.ask("warm_up", method=method)["calls"])

    def sample(self, method: str) -> tuple[float, float, bool]:
        """(device seconds, host seconds, sound) as the process claims."""
        reply = self.remote.ask("sample", method=method, wanted=self.wanted)
        seconds = float(_nan(reply["seconds"]))
        if not math.isfinite(seconds):
            raise self.remote.nonsense()
        return seconds, float(_nan(reply["host"])), bool(reply["sound"])

    def note(self, method: str) -> str:
        return str(self.remote.ask("note", method=method)["note"])[:300]

    def batch(self, count: int, hold: float) -> float:
        """Seconds of `count` back-to-back calls by the judge's clock; `count` may be 0.

        The answer must hold elements of the last output chosen with the request, so the work is done when it comes.
        Raises ChangedResultError when they are wrong.
        """
        self.remote.phase = "time"
        changes = [self._change(), self._change()]
        probes = self._probes() if count else []
        places = [[leaf, index] for leaf, index, _, _ in probes]
        self.remote.ask("expect", changes=changes)
        began = time.perf_counter()
        reply = self.remote.ask("batch", count=count, hold=hold, probes=places)
        wall = time.perf_counter() - began
        try:
            _same_elements(probes, reply["values"])
        except ChangedResultError:
            # The element may jump or be less exact: compare the whole answer.
            self.recheck()
        return wall

    def _probes(self) -> list[tuple[int, int, float, float]]:
        """(leaf, element, value, slack) of a few elements drawn at random."""
        leaves = [leaf for _, leaf in tensors(None if self._alone else self._data.answer())]
        real = [
            n
            for n, leaf in enumerate(leaves)
            if isinstance(leaf, torch.Tensor) and leaf.numel() and not leaf.is_complex()
        ]
        found = []
        for _ in range(_PROBES if real else 0):
            number = self._chance.choice(real)
            leaf = leaves[number]
            index = self._chance.randrange(leaf.numel())
            value = float(leaf[place(index, leaf.shape)])
            part = leaf.flatten()[:4096].to(torch.float64).nan_to_num(0.0, 0.0, 0.0)
            room = max(_PROBE_RTOL, torch.finfo(leaf.dtype).eps if leaf.is_floating_point() else 0.0)
            found.append((number, index, value, room * (abs(value) + float(part.square().mean().sqrt()))))
        return found

    def recording(self) -> RemoteRecording:
        return RemoteRecording(self)


def suspects(calls: Mapping[str, Any]) -> dict[str, RemoteCall]:
    """The calls that live in other processes."""
    return {name: call for name, call in calls.items() if isinstance(call, RemoteCall)}


def notes(calls: Mapping[str, Any], clock: Clock) -> str:
    """The clock's note; the longer one of another process where it adds to it."""
    said = [call.note(clock.method) for call in suspects(calls).values()]
    return next((note for note in said if len(note) > len(clock.note)), clock.note)


class RemoteRecording:
    """A CUPTI recording in the candidate's process; see cupti.Recording."""

    def __init__(self, call: RemoteCall) -> None:
        self._call, self._remote = call, call.remote
        self._name = call.remote.subject.name
        self._asked = False

    def ask(self, question: str) -> None:
        """Send "record" or "records"; the answer is fetched later, so processes work in parallel."""
        self._remote.post(question)
        self._asked = True

    def begin(self) -> None:
        self._cupti("record")

    def take(self, name: str, call: Any, number: int, trial: int) -> tuple[float, bool]:
        reply = self._remote.ask("recorded", name=name, number=number, trial=trial, wanted=self._call.wanted)
        seconds, sound = reply["pair"]
        return float(seconds), bool(sound)

    def end(self) -> tuple[list[Sample], dict[str, list[Activity]]]:
        """Raises CuptiError, also for samples of calls that are not this candidate's."""
        reply = self._cupti("records")
        try:
            samples = [Sample(**{key: _nan(value) for key, value in row.items()}) for row in reply["samples"]]
            seen = {name: [Activity(**row) for row in rows] for name, rows in reply["activities"].items()}
        except (AttributeError, KeyError, TypeError) as error:
            raise CuptiError(f"{self._name}: its process sent no records") from error
        strange = any(
            s.impl != self._name or s.method != "cupti" or (s.kept and not math.isfinite(s.seconds)) for s in samples
        )
        if strange or set(seen) - {self._name}:
            raise CuptiError(f"{self._name}: its process sent records of other calls than its own")
        return samples, seen

    def close(self) -> None:
        if self._asked and not self._remote.gone:
            self._cupti("")
        if not self._remote.gone:
            self._cupti("stop_recording")

    def _cupti(self, question: str) -> dict[str, Any]:
        """The answer, to the earlier request where one is pending."""
        asked, self._asked = self._asked, False
        try:
            return self._remote.due() if asked else self._remote.ask(question)
        except RemoteError as error:
            raise CuptiError(str(error)) from error


def _nan(value: Any) -> Any:
    return float("nan") if value is None else value


def _same_elements(probes: Sequence[tuple[int, int, float, float]], values: Sequence[Any]) -> None:
    """Raise ChangedResultError for elements unlike `probes`."""
    if len(values) != len(probes):
        raise ChangedResultError("a timed call gave another number of outputs than the checked one")
    for (leaf, index, want, slack), got in zip(probes, values, strict=True):
        strange = want != want or abs(want) == float("inf")
        if not strange and not (isinstance(got, (int, float)) and abs(got - want) <= slack):
            raise ChangedResultError(
                f"element {index} of output {leaf} was {got} when the timed calls were said to be done; "
                f"the reference gives {want:.6g}",
                "stops-computing",
            )
