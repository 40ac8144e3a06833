"""Cross-examination: the time of a call by the clock of another process.

A candidate's process can say of a call what it likes, for it could have replaced every timer in it. From outside
two things are seen: a batch of N + 1 calls and one of a single call, each behind the same spin kernel, so that
launching is hidden in both. What the first takes longer, divided by N, is a call; start, hold, and answer cancel.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from profkit.runner.offence import OffenceError
from profkit.runner.timing import Sample

METHOD = "outside"
NOTE = "another process's clock: what N more calls take, divided by N; warm cache"
DECIDING = ("cupti", "event", "wall")
ROUNDS = 7
LIE = 1.5
"""A claim this much faster than any batch seen from outside is no measurement."""
MARGIN = 0.25
RESOLUTION = 20e-6
"""Seconds by which two batches may differ from outside without meaning anything."""
TICK = {"cuda": 1e-6, "cpu": 0.0}
"""Seconds below which no timer of a device tells two calls apart: an event's time is half of that to either side, and what is
taken off for the pair is measured likewise.
"""
_WORK = {"cuda": 1e-3, "cpu": 20e-3}
"""Seconds of calls in a batch. On a GPU it is bounded by the launches that fit into the queue."""
_MOST_CALLS = {"cuda": 200, "cpu": 10_000}
_FEW = 10
_MOST_HOLD = 0.2
_HOLDS = (2.0, 8.0)
"""How long the queue is held for one call alone, in times of what launching it took."""
_CYCLES = 2.0e9
_BUDGET = 2.0


class TimerLieError(OffenceError):
    """A candidate's process reports times that cannot be."""

    def __init__(self, what: str) -> None:
        super().__init__("timer-lie", what)


@dataclass(frozen=True)
class Exam:
    """One implementation from outside: seconds a call `claimed` in its samples, `least` seconds a call seen from
    outside; of the long batches the median `wall` seconds and those that its process `hid`, by its own timer; the `tick` of the
    device.
    """

    impl: str
    claimed: float
    least: float
    wall: float
    hid: float
    samples: tuple[Sample, ...]
    tick: float = 0.0


def batch(call: Any, count: int, hold: float, device: torch.device) -> float:
    """Seconds of `count` calls back to back as this process sees them, of none too. The last one takes other inputs than
    those before it, so that their output does not pass for its own.
    """
    cuda = device.type == "cuda"
    call.turn()
    call.prepare()
    if cuda:
        torch.cuda.synchronize(device)
        torch.cuda._sleep(int(max(hold, 1e-6) * _CYCLES))
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
    began = time.perf_counter()
    for _ in range(count - 1):
        call()
    call.turn()
    if count:
        call()
    if not cuda:
        return time.perf_counter() - began
    stop.record()
    torch.cuda.synchronize(device)
    return float(start.elapsed_time(stop) * 1e-3)


def examine(
    calls: Mapping[str, Any], samples: list[Sample], device: torch.device, before: Callable[[str], None]
) -> list[Exam]:
    """Batches of every implementation in random order, ROUNDS times, fewer when calls are long or nothing is to be said of them:
    more rounds only make the least less.
    """
    claims = {name: _claim(samples, name) for name in calls}
    plans = {}
    for name in calls:
        before(name)
        plans[name] = _enough(calls[name], *_plan(claims[name], device), device)
    seen: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in calls}
    order, chance = list(calls), random.SystemRandom()
    end = time.monotonic() + _BUDGET
    for number in range(ROUNDS):
        chance.shuffle(order)
        for name in order:
            before(name)
            seen[name].append(_pair(calls[name], *plans[name], device))
        if number < 2:
            continue
        exams = [_exam(name, claims[name], plans[name][0], seen[name], TICK[device.type]) for name in calls]
        suspects = {name: call for name, call in calls.items() if hasattr(call, "batch")}
        if time.monotonic() > end or judge(exams, suspects) == ([], []):
            break
    return exams


def _claim(samples: list[Sample], name: str) -> tuple[float, float]:
    """(least median seconds of a method that may decide, NaN where none tells, median seconds of the caller), as it claims
    itself.
    """
    mine = [s for s in samples if s.impl == name and s.method in DECIDING]
    mine = [s for s in mine if s.kept] or mine
    hosts = [s.host for s in mine if s.host == s.host]
    told = [s for s in mine if s.seconds == s.seconds]
    by_method = [[s.seconds for s in told if s.method == method] for method in {s.method for s in told}]
    least = min(map(statistics.median, by_method), default=math.nan)
    return least, statistics.median(hosts) if hosts else 0.0


def _plan(claim: tuple[float, float], device: torch.device) -> tuple[int, float]:
    """(more calls in the longer batch, seconds to hold the queue)."""
    seconds, host = claim
    count = max(1, min(_MOST_CALLS[device.type], int(_WORK[device.type] / max(1e-6, seconds))))
    return count, min(_MOST_HOLD, 1.5 * (count + 1) * max(host, 0.0) + 1e-4)


def _enough(call: Any, count: int, hold: float, device: torch.device) -> tuple[int, float]:
    """(count, hold) with a count that fills the time wanted, found from below: warm calls are faster than the cold ones
    of samples, and a call that is said to take nothing would be made ten thousand times.
    """
    if device.type == "cuda":
        return count, hold
    count = min(count, _FEW)
    while count < _MOST_CALLS["cpu"] and _once(call, count + 1, hold, device)[0] < _WORK["cpu"] / 2:
        count = min(_MOST_CALLS["cpu"], 3 * count)
    return count, hold


def _pair(call: Any, count: int, hold: float, device: torch.device) -> tuple[float, float, float, float]:
    """(outside, inside) seconds of a batch of one and of a batch of count + 1."""
    return (*_once(call, 1, hold, device), *_once(call, count + 1, hold, device))


def _once(call: Any, count: int, hold: float, device: torch.device) -> tuple[float, float]:
    if hasattr(call, "batch"):
        wall, inside = call.batch(count, hold)
        return float(wall), float(inside)
    began = time.perf_counter()
    inside = batch(call, count, hold, device)
    return time.perf_counter() - began, inside


def _exam(
    name: str,
    claim: tuple[float, float],
    count: int,
    seen: list[tuple[float, float, float, float]],
    tick: float = 0.0,
) -> Exam:
    ones, manies = [row[0] for row in seen], [row[2] for row in seen]
    slopes = [max(0.0, (row[2] - row[0]) / count) for row in seen]
    least = (min(manies) - statistics.median(ones) - RESOLUTION) / count
    hid = statistics.median((row[2] - row[3]) - (row[0] - row[1]) for row in seen)
    rows = tuple(Sample(name, METHOD, n, 0, slope, l2="warm") for n, slope in enumerate(slopes))
    return Exam(name, claim[0], max(0.0, least), statistics.median(manies), hid, rows, tick)


def judge(
    exams: list[Exam], suspects: Mapping[str, Any], slower: float = 1.0, load: str = ""
) -> tuple[list[str], list[dict[str, str]]]:
    """(names whose claims cannot be, doubts about those that are merely far off).

    The reference is timed in the judge's own process, where nobody lies: by as much as its batches are slower
    than its samples, because the machine is busy, the others are forgiven; so is what a load that made things `slower`
    by so many times can explain (`load`: in words).
    """
    usual = max([1.0, *(e.least / e.claimed for e in exams if e.impl not in suspects and e.claimed > 0)])
    liars, doubts = [], []
    for exam in exams:
        if exam.impl not in suspects:
            continue
        claimed = max(exam.claimed, exam.tick)
        if exam.least > LIE * max(usual, slower) * claimed:
            liars.append(exam.impl)
        elif exam.least > LIE * usual * claimed:
            doubts.append(
                {
                    "what": f"whether {exam.impl} takes the time that its process reports could not be told",
                    "how_much": f"{exam.claimed * 1e6:.4g} us a call reported, at least {exam.least * 1e6:.4g} us from "
                    f"outside, on a busy machine: {load}",
                    "fix": "measure again on a machine that does nothing else",
                    "code": "busy",
                    "about": exam.impl,
                }
            )
        elif slower == 1.0 and abs(exam.hid) > MARGIN * exam.wall + RESOLUTION:
            # On a busy machine an answer waits for its turn, and nobody hid anything.
            doubts.append(
                {
                    "what": f"the process of {exam.impl} times its batches differently than they look from outside",
                    "how_much": f"{exam.wall * 1e6:.4g} us from outside, {(exam.wall - exam.hid) * 1e6:.4g} us by its own timer",
                    "fix": "see that nothing else runs on this machine, and measure again",
                }
            )
    return liars, doubts


def place(index: int, shape: torch.Size) -> tuple[int, ...]:
    """Where element number `index` is in a tensor of this shape."""
    found: list[int] = []
    for size in reversed(shape):
        index, at = divmod(index, size)
        found.append(at)
    return tuple(reversed(found))


def launching(
    exam: Exam, call: Any, samples: list[Sample], device: torch.device, before: Callable[[str], None]
) -> bool:
    """Whether launching explains what its batches took: the queue need not hold two calls of many kernels, nor is every hold as
    long as launching takes on a busy machine. By its own word such a call launches for longer than the device works; behind a
    hold that is long enough one alone then takes what it claims beyond what none at all takes.
    """
    claimed, host = _claim(samples, exam.impl)
    if device.type != "cuda" or not host > claimed:
        return False
    for longer in _HOLDS:
        hold = min(_MOST_HOLD, longer * host + 1e-4)
        ones: list[float] = []
        nones: list[float] = []
        for _ in range(ROUNDS):
            for count, seen in ((0, nones), (1, ones)):
                before(exam.impl)
                seen.append(_once(call, count, hold, device)[0])
        if min(ones) - statistics.median(nones) - RESOLUTION <= LIE * max(claimed, exam.tick):
            return True
    return False


def accusation(exam: Exam) -> str:
    """What a lie looks like, in words."""
    return (
        f"patched timer: its process reports {exam.claimed * 1e6:.4g} us a call, from outside a call takes "
        f"at least {exam.least * 1e6:.4g} us"
    )
