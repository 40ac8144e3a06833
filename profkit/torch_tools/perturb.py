"""The call under other conditions: warm L2, half of the SMs, half of each SM, half the data.

What binds a call shows in what does not slow it down: half of the SMs if it waits for DRAM, half of the data if it
waits for launches. analyzers/perturbation.py concludes.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from profkit.guest import facts
from profkit.guest.clocks.clocks import CpuClock, CudaClock
from profkit.guest.tensors import inputs
from profkit.guest.tensors.compare import tensors
from profkit.torch_tools.resident import Resident

ROUNDS, LEAST = 15, 5
"""Rounds of all conditions: as planned, and at least."""
TRIES = 3
ROOM = 4.0
"""Slow-down that shows that a call had to wait for the resident kernel: half of the room gives 2 to 3."""
RESIDENTS = {"half_sms": "whole", "half_warps": "half"}
"""Condition -> shape of the resident kernel."""


@dataclass
class _Beside:
    """A call beside the resident kernel, which is released once the call is queued."""

    call: Callable[[], Any]
    resident: Resident
    name: str

    def __call__(self) -> Any:
        self.resident.enter(self.name)
        return self.call()

    def witness(self) -> None:
        self.resident.leave()


def conditions(
    calls: Mapping[str, Callable[[], Any]], device: torch.device, resident: Resident | None, budget: float
) -> dict[str, list[float]]:
    """Condition -> seconds of its samples, in interleaved rounds.

    calls: "usual", or "half_size" alone. budget [s]: after which no round begins. Conditions without room for the
    call are left out; "warm" repeats a call on the same data.
    """
    cold, warm = _clock(device, cold=True), _clock(device, cold=False)
    plans: dict[str, tuple[Any, Callable[[], Any]]] = {name: (cold, call) for name, call in calls.items()}
    plans |= {"warm": (warm, calls["usual"])} if "usual" in calls else {}
    if resident is not None:
        plans |= {name: (cold, _Beside(calls["usual"], resident, kernel)) for name, kernel in RESIDENTS.items()}
    for clock, call in plans.values():
        clock.warm_up(call)
        if isinstance(call, _Beside):
            call.witness()
        facts.settle(device)
    found: dict[str, list[float]] = {name: [] for name in plans}
    order, shuffle = list(plans), random.Random(0)
    end = time.monotonic() + budget
    for number in range(ROUNDS):
        if number >= LEAST and time.monotonic() > end:
            break
        shuffle.shuffle(order)
        for name in order:
            found[name].append(_sample(*plans[name], device))
    usual = statistics.median(found["usual"]) if "usual" in found else math.inf
    crowded = [name for name in RESIDENTS if name in found and statistics.median(found[name]) > ROOM * usual]
    return {name: seconds for name, seconds in found.items() if name not in crowded}


def _clock(device: torch.device, *, cold: bool) -> CudaClock | CpuClock:
    return CudaClock(device, cold=cold) if device.type == "cuda" else CpuClock(cold=cold)


def _sample(clock: CudaClock | CpuClock, call: Callable[[], Any], device: torch.device) -> float:
    """Seconds of one call; of several unsound samples the last."""
    seconds = 0.0
    for _ in range(TRIES):
        if clock.l2 == "warm":
            call()
            facts.settle(device)
        seconds, _, sound = clock.sample(call)
        if sound:
            break
    return seconds


def halves(arguments: list[Any]) -> Iterator[list[Any]]:
    """Arguments with half of all tensors, or one, as long as the first or the largest."""
    leaves = [leaf for _, leaf in tensors(arguments) if isinstance(leaf, torch.Tensor) and leaf.dim()]
    largest = sorted(leaves, key=lambda one: -one.numel())[:1]
    for lead in dict.fromkeys([*leaves[:1], *largest]):
        if len(lead) > 1:
            yield _cut(arguments, [one for one in leaves if len(one) == len(lead)])
            yield _cut(arguments, [lead])


def _cut(arguments: list[Any], which: Sequence[torch.Tensor]) -> list[Any]:
    """The arguments with the first half of these tensors."""
    chosen = {id(one) for one in which}
    found: list[Any] = inputs.mapped(arguments, lambda one: one[: len(one) // 2] if id(one) in chosen else one)
    return found
