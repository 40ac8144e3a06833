"""Timed calls of a candidate in another process: its claims, and the judge's own view."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from profkit.guest.clocks.cupti import Activity, CuptiError
from profkit.guest.clocks.timing import Clock
from profkit.guest.subject import ChangedResultError, Data, place
from profkit.guest.tensors.compare import tensors
from profkit.judge.remote import Remote

_PROBES = 8
_PROBE_RTOL = 0.05
"""Tolerance of probes, which check that a result exists; whole outputs get the precision check."""


class RemoteCall:
    """A timed call in another process. of, wanted: a pass of backward.PASSES and its gradients.

    `waits`: its clock could not hold the queue, as the process claims.
    """

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
        self.wanted = self.waits = False
        self.remote.phase, self.remote.turns = "check", []
        self.remote.ask("ready", of=of, wanted=list(wanted))

    def __call__(self) -> None:
        self.remote.phase = "time"
        self.remote.ask("run", wanted=self.wanted)

    def turn(self) -> None:
        """Queue other data for the next request; it also overwrites the last output's memory."""
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

    def warm_up(self, method: str) -> None:
        self.remote.ask("warm_up", method=method)

    def sample(self, method: str) -> tuple[float, float, bool]:
        """(device seconds, host seconds, sound), as the process claims."""
        reply = self.remote.ask("sample", method=method, wanted=self.wanted)
        # JSON has null for NaN.
        seconds, host = (math.nan if reply[name] is None else float(reply[name]) for name in ("seconds", "host"))
        if not math.isfinite(seconds):
            raise self.remote.nonsense()
        self.waits = reply.get("waits") is True
        return seconds, host, bool(reply["sound"])

    def batch(self, count: int, hold: float) -> float:
        """Seconds of `count` back-to-back calls by the judge's clock; `count` may be 0.

        The answer must hold elements of the last output chosen with the request, so it proves that the work is done.
        Raises ChangedResultError if they are wrong.
        """
        self.remote.phase = "time"
        for _ in range(2):
            self.remote.ask("expect", change=self._change())
        probes = self._probes() if count else []
        places = [[leaf, index] for leaf, index, _, _ in probes]
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
        """(leaf, element, value, tolerance) of a few random elements."""
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

    def ask_warm_up(self, method: str) -> None:
        """Start the warm-up without waiting, so that processes warm up together."""
        self.remote.post("warm_up", method=method)

    def ask_records(self) -> None:
        """End the recording without waiting; `records` returns it."""
        self._records = self.remote.fresh_file()
        self.remote.post("records", output=self._records.name)

    def records(self) -> tuple[list[tuple[float, float]], list[Activity]]:
        """Recorded times, see cupti.summed. Raises CuptiError."""
        self.remote.due()
        try:
            spans, activities = self.remote.output(self._records)
            return [_span(*row) for row in spans], [_activity(*row) for row in activities]
        except (TypeError, ValueError, OverflowError) as error:
            raise CuptiError(f"{self.remote.subject.name}: its process sent no records") from error

    def stop_recording(self) -> None:
        if not self.remote.gone:
            self.remote.ask("stop_recording")


def _span(span: Any, busy: Any) -> tuple[float, float]:
    """Seconds of a call, both NaN if nothing ran. Raises ValueError for an invalid time."""
    found = float(span), float(busy)
    if not (all(0 < one < math.inf for one in found) or all(map(math.isnan, found))):
        raise ValueError(f"{found} are no times")
    return found


def _activity(name: Any, start: Any, end: Any, stream: Any) -> Activity:
    found = Activity(str(name), float(start), float(end), int(stream))
    if not 0 <= found.start <= found.end < math.inf:
        raise ValueError(f"{found} has no time")
    return found


def suspects(calls: Mapping[str, Any]) -> dict[str, RemoteCall]:
    """Calls in other processes."""
    return {name: call for name, call in calls.items() if isinstance(call, RemoteCall)}


def note(calls: Mapping[str, Any], clock: Clock) -> str:
    """How the clock measures, in this and in other processes."""
    waits = clock.waits or any(call.waits for call in suspects(calls).values())
    return clock.note + "; one call waits for the device itself, so its launch cost is inside" * waits


def _same_elements(probes: Sequence[tuple[int, int, float, float]], values: Sequence[Any]) -> None:
    """Raise ChangedResultError for elements unlike `probes`."""
    if len(values) != len(probes):
        raise ChangedResultError("a timed call gave another number of outputs than the checked one")
    for (leaf, index, want, slack), got in zip(probes, values, strict=True):
        strange = want != want or abs(want) == float("inf")
        if not strange and not (isinstance(got, (int, float)) and abs(got - want) <= slack):
            raise ChangedResultError(
                f"element {index} of output {leaf} was {got} when the timed calls were reported done; "
                f"the reference gives {want:.6g}",
                "stops-computing",
            )
