"""Lower bounds of call times, by the clock of another process.

A candidate's process may replace every timer in it. From outside, batches of N + 1 calls and of one call are timed,
both behind the same spin kernel, which hides launches. The difference divided by N is one call; start, hold and answer
cancel. Of a call as long as a batch only one is timed, against an empty batch.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from profkit.guest.clocks.timing import Sample
from profkit.guest.subject import batch
from profkit.judge.timing import company

METHOD = "outside"
NOTE = "another process's clock: what N more calls take, divided by N; warm cache"
DECIDING = ("cupti", "event", "wall")
ROUNDS = 7
MARGIN = {"cuda": 1.35, "cpu": 1.1}
"""Accepted ratio of a batch's time to the claimed time: gaps between launches."""
RESOLUTION = 20e-6
"""Insignificant difference of two batches [s]."""
TICK = {"cuda": 1e-6, "cpu": 0.0}
"""Resolution of a device's timer [s]; a claim and its offset are each off by up to half."""
_WORK = {"cuda": 1e-3, "cpu": 20e-3}
"""Seconds of calls in a batch; on a GPU limited by the launch queue."""
_MOST_CALLS = {"cuda": 200, "cpu": 10_000}
_FEW = 10
_MOST_HOLD = 0.2
_HOLDS = (2.0, 8.0)
"""Hold of the queue for a single call, in multiples of its launch time."""
_BUDGET = 2.0


@dataclass(frozen=True)
class Exam:
    """Seconds per call: `claimed` by the process, `least` from outside; `tick`: resolution."""

    impl: str
    claimed: float
    least: float
    samples: tuple[Sample, ...]
    tick: float = 0.0


def examine(
    calls: Mapping[str, Any], samples: list[Sample], device: torch.device, before: Callable[[str], None]
) -> list[Exam]:
    """Time batches of all implementations in random order until no claim is violated."""
    claims = {name: _claim(samples, name) for name in calls}
    plans = {}
    for name in calls:
        before(name)
        plans[name] = _plan(calls[name], claims[name], device)
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    order, chance = list(calls), random.SystemRandom()
    end = time.monotonic() + _BUDGET
    for number in range(ROUNDS):
        chance.shuffle(order)
        for name in order:
            before(name)
            few, count, hold = plans[name]
            one, many = (_once(calls[name], n, hold, device) for n in (few, few + count))
            seen[name].append((one, many))
        if number < 2:
            continue
        exams = [_exam(name, claims[name], plans[name][1], seen[name], TICK[device.type]) for name in calls]
        suspects = {name: call for name, call in calls.items() if hasattr(call, "batch")}
        if time.monotonic() > end or not bounds(exams, suspects, MARGIN[device.type]):
            break
    return exams


def _claim(samples: list[Sample], name: str) -> tuple[float, float]:
    """(least median seconds of a deciding method, NaN without; median host seconds), as claimed."""
    mine = [s for s in samples if s.impl == name and s.method in DECIDING]
    mine = [s for s in mine if s.kept] or mine
    hosts = [s.host for s in mine if s.host == s.host]
    known = [s for s in mine if s.seconds == s.seconds]
    by_method = [[s.seconds for s in known if s.method == method] for method in {s.method for s in known}]
    least = min(map(statistics.median, by_method), default=math.nan)
    return least, statistics.median(hosts) if hosts else 0.0


def _plan(call: Any, claim: tuple[float, float], device: torch.device) -> tuple[int, int, float]:
    """(calls in the shorter batch, more calls in the longer one, seconds to hold the queue)."""
    seconds, host = claim
    few = int(not max(seconds, host) > _WORK[device.type])
    count = max(1, min(_MOST_CALLS[device.type], int(_WORK[device.type] / max(1e-6, seconds))))
    hold = min(_MOST_HOLD, 1.5 * (count + few) * max(host, 0.0) + 1e-4)
    if device.type == "cpu":
        # From below, because claims may be zero.
        count = min(count, _FEW)
        while few and count < _MOST_CALLS["cpu"] and _once(call, count + 1, hold, device) < _WORK["cpu"] / 2:
            count = min(_MOST_CALLS["cpu"], 3 * count)
    return few, count, hold


def _once(call: Any, count: int, hold: float, device: torch.device) -> float:
    if hasattr(call, "batch"):
        return float(call.batch(count, hold))
    began = time.perf_counter()
    batch(call, count, hold, device)
    return time.perf_counter() - began


def _exam(
    name: str, claim: tuple[float, float], count: int, seen: list[tuple[float, float]], tick: float = 0.0
) -> Exam:
    ones, manies = zip(*seen, strict=True)
    slopes = [max(0.0, (many - one) / count) for one, many in seen]
    least = (min(manies) - statistics.median(ones) - RESOLUTION) / count
    rows = tuple(Sample(name, METHOD, n, 0, slope, l2="warm") for n, slope in enumerate(slopes))
    return Exam(name, claim[0], max(0.0, least), rows, tick)


def bounds(exams: list[Exam], suspects: Mapping[str, Any], margin: float) -> dict[str, float]:
    """Lower bounds of seconds per call, by name, of implementations that claim less.

    The reference runs in the judge's process. Load slows its batches too, so the other bounds are divided by its ratio.
    """
    usual = max([1.0, *(e.least / e.claimed for e in exams if e.impl not in suspects and e.claimed > 0)])
    least = {exam.impl: exam.least / (margin * usual) for exam in exams if exam.impl in suspects}
    return {e.impl: least[e.impl] for e in exams if least.get(e.impl, 0.0) > max(e.claimed, e.tick)}


def raised(samples: list[Sample], name: str, least: float) -> list[Sample]:
    """Scale the samples of one implementation so that no deciding median is below `least` [s]."""
    medians = {}
    for method in DECIDING:
        mine = [s.seconds for s in samples if s.impl == name and s.method == method and s.seconds == s.seconds]
        medians[method] = statistics.median(mine) if mine else math.inf

    def up(sample: Sample) -> Sample:
        median = medians.get(sample.method, math.inf)
        if sample.impl != name or median >= least:
            return sample
        return replace(sample, seconds=sample.seconds * least / median if median > 0 else least)

    return [up(sample) for sample in samples]


def caveat(exam: Exam, least: float, load: str) -> dict[str, str]:
    """Caveat about calls that take longer from outside; load: contention that may explain it."""
    inside, outside = exam.claimed * 1e6, exam.least * 1e6
    if load:
        what = f"the time that {exam.impl}'s process reports could not be checked"
        much = f"it reports {inside / 1e3:.3g} ms, from outside at least {outside / 1e3:.3g} ms: {load}"
        return {**company.unsure(what, much), "about": exam.impl}
    what = f"the time of {exam.impl} is bounded by a clock outside its process: {least * 1e6:.4g} us a call"
    fix = "stop other work on this machine; do all work inside the call"
    much = (
        f"its process reports {inside:.4g} us a call, from outside at least {outside:.4g} us a call: the larger counts"
    )
    return {"what": what, "how_much": much, "fix": fix, "code": METHOD, "about": exam.impl}


def launching(
    exam: Exam, call: Any, samples: list[Sample], device: torch.device, before: Callable[[str], None]
) -> bool:
    """Whether launch overhead explains the batches' time.

    The queue may be too short for two calls of many kernels, and a hold too short for launches on a busy machine. Then
    one call behind a longer hold takes its claimed time more than an empty batch.
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
                seen.append(_once(call, count, hold, device))
        if min(ones) - statistics.median(nones) - RESOLUTION <= MARGIN[device.type] * max(claimed, exam.tick):
            return True
    return False
