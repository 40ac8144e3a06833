"""All the ways of timing one set of calls, in the order that disturbs them least."""

from __future__ import annotations

import functools
import random
import statistics
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from profkit.guest import facts
from profkit.guest.clocks import cupti, timing
from profkit.guest.clocks.clocks import CpuClock, CudaClock, GraphClock, HostClock
from profkit.guest.subject import TimedCall
from profkit.judge.events import Events
from profkit.judge.remote import RemoteError
from profkit.judge.timing import busy, energy, outside, turns, winner
from profkit.launch.protocol import Job

SHORT = 20e-6
"""Seconds below which a graph of calls is timed as well."""
SIDE_ROUNDS = 12
RECHECKS = 1 / 8
"""Share of timed calls, drawn at random, whose output is compared; half of the first ones."""
_FIRST_TURNS = 8
_LOADED = 2.0
_PRESSED = 0.3
_WORTH_A_WORD = 0.01
_AGREEING, _AGREED = 0.3, 0.01
"""Share of the budget that event pairs take where CUPTI is to decide, and the precision that is enough then."""
_FEW: Mapping[str, Any] = {"least": 8, "trials": 2}
_FEWER: Mapping[str, Any] = {"least": timing.DECIDING, "most": timing.DECIDING, "trials": 1}
"""Their rounds then; in further processes, where nothing is asked of them but how long launching takes, and none is kept."""
_COMPARING = 0.5
"""Share of the time that comparing may take once the first rounds are over."""
MOST_RECORDINGS = 6
"""CUPTI keeps every record in memory until a recording ends, so long measurements are several of them."""


def time_all(
    job: Job,
    calls: Mapping[str, TimedCall],
    device: torch.device,
    events: Events,
    turn: Callable[[str], None],
) -> dict[str, Any]:
    """Write timings.csv (and cupti.csv); how they were made, as the event "timing" says it.

    The wall clock of a CPU runs until the wanted precision is reached. On CUDA event pairs come first, for a part of the budget: they are
    to agree with CUPTI, then the host's view, graphs of short calls, and CUPTI, which decides; where it is done `again`, CUPTI alone
    follows. Where CUPTI cannot, the event pairs decide and run to that precision. A cross-check that fails is a caveat, never the end.
    """
    timed = _Timed(job, calls, device, events, turn)
    if isinstance(timed.own, CudaClock):
        timed.by_events(timed.own)
    else:
        reference = next((one.name for one in job.subjects if one.role == "reference"), "")
        apart = functools.partial(timing.apart, reference=reference, by=job.clear)
        timed.measure(job.budget, job.target, enough=apart if job.clear else None)
    timed.write()
    if not job.again:
        timed.best_again()
    if turns.suspects(calls):
        timed.bound()
    joules = energy.per_call(calls, timed.samples, device, timed.before) if job.energy and not job.again else {}
    timed.spent.on("energy" if joules else "")
    used = {sample.method for sample in timed.samples}
    result, clock = timed.result, timed.clock
    return {
        "method": clock.method,
        "note": clock.note,
        "l2": clock.l2,
        "flush_bytes": clock.flush_bytes,
        "rounds": result.rounds,
        "warmup": result.warmup,
        "budget": job.budget,
        "target": job.target,
        "reached": result.reached,
        "dropped": timed.dropped,
        "offset": timed.offset,
        "energy": joules,
        "seconds": timed.spent.seconds,
        "notes": {name: note for name, note in timed.notes.items() if name in used},
    }


class _Timed:
    """One set of calls on its way through the clocks.

    `samples` so far; `offset` [s]: an event pair's own time; `dropped`: samples that do not count.
    """

    def __init__(
        self,
        job: Job,
        calls: Mapping[str, TimedCall],
        device: torch.device,
        events: Events,
        turn: Callable[[str], None],
    ) -> None:
        self._job, self._calls, self._device, self._events, self._turn = job, calls, device, events, turn
        cold = job.l2 == "cold"
        self.own = CudaClock(device, cold=cold) if device.type == "cuda" else CpuClock(cold=cold)
        self.clock = turns.over(self.own, calls)
        self.spent, self._after, self._watch = _Spent(), _Comparing(calls), busy.Watch()
        self._full = float(facts.device_facts(device).get("max_sm_clock", 0.0))
        self.samples: list[timing.Sample] = []
        self.notes: dict[str, str] = {}
        self._scant, self.offset, self.dropped = False, 0.0, 0

    def before(self, name: str) -> None:
        """Other data for an implementation, and whether what comes of them is compared."""
        self._turn(name)
        self._calls[name].turn()
        self._after.choose(name)

    def _visit(self, name: str) -> None:
        self._watch.look()
        self.before(name)

    def measure(
        self, budget: float, target: float, enough: Callable[[list[timing.Sample]], bool] | None = None, **rounds: Any
    ) -> None:
        """Take samples by the clock; all are compared once in the end."""
        self.result = timing.measure(
            self._calls,
            self.clock,
            budget=budget,
            target=target,
            before=self._visit,
            after=self._after,
            enough=enough or (lambda _: False),
            **rounds,
        )
        _say_load(self._watch, self._events)
        for name, call in self._after.compared.items():
            self.before(name)
            call()
            call.recheck()
        self.spent.on(self.clock.method)
        self.samples = timing.drop_slow_rounds(self.result.samples, self._full)
        self.dropped = sum(not sample.kept for sample in self.samples)
        self.notes[self.clock.method] = turns.notes(self._calls, self.clock)

    def by_events(self, clock: CudaClock) -> None:
        """Event pairs and what they are checked against."""
        job = self._job
        few = _FEWER if job.again else _FEW
        self.measure(_AGREEING * job.budget, max(job.target, _AGREED), **few)
        self.write()
        more, self.offset = _cross_checks(
            job, self._calls, self.samples, clock, self._device, self._events, self.before, self._after, self.spent
        )
        if any(sample.method == "cupti" for sample in more):
            # So few pairs are no witness.
            self._scant = job.again
        else:
            self.measure((1 - _AGREEING) * job.budget, job.target)
        self.samples = [_less(sample, self.offset) for sample in self.samples] + more
        self.dropped = sum(not sample.kept for sample in self.samples)
        self.notes |= {"host": HostClock.note, "graph": GraphClock.note, "cupti": cupti.NOTE}
        if self.offset:
            self.notes["event"] += f"; less {self.offset * 1e6:.2f} us, what the pair reads on an empty kernel"

    def best_again(self) -> None:
        """The fastest of several candidates by samples taken after it was found to be that."""
        best, fresh = _best_again(
            self._job, self._calls, self.own, self.samples, self.offset, self._full, self.before, self._after
        )
        if not best:
            return
        self.dropped += sum(not sample.kept for sample in fresh)
        self.samples = winner.replaced(self.samples, fresh, best)
        self.write()
        for method in {sample.method for sample in fresh}:
            self.notes[method] += f"; {best}, the fastest of {len(self._calls) - 1}, timed again"
            self.notes[method + winner.FIRST] = f"the samples by which {best} was found the fastest"
        self.spent.on("best again")

    def bound(self) -> None:
        """The times of other processes, no less than they look from here."""
        self.samples = _from_outside(self._calls, self.samples, self._device, self._events, self.before)
        self.write()
        self.notes[outside.METHOD] = outside.NOTE
        self.spent.on(outside.METHOD)

    def write(self) -> None:
        """Write timings.csv."""
        told = [one for one in self.samples if one.method != "event"] if self._scant else self.samples
        timing.write(told, Path(self._job.timings))


def ready(job: Job, calls: Mapping[str, TimedCall], device: torch.device) -> None:
    """Set CUPTI up beside other work, where no host clock follows that it would slow down."""
    if device.type == "cuda" and job.again:
        try:
            cupti.set_up(calls, CudaClock(device, cold=False))
        except (cupti.CuptiError, RuntimeError) as error:
            # Who records finds it out again, and says so.
            _only_of_clocks(error)


class _Spent:
    """Seconds by part of the timing."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def on(self, part: str) -> None:
        """What passed since the last time went into this; "" for nothing worth a word."""
        now = time.monotonic()
        if part and now - self._last > _WORTH_A_WORD:
            self.seconds[part] = round(self.seconds.get(part, 0.0) + now - self._last, 3)
        self._last = now


def _say_load(watch: busy.Watch, events: Events) -> None:
    """A caveat when the machine had more to do than this measurement."""
    if watch.slower > _LOADED and watch.pressure > _PRESSED:
        events.send("caveat", **busy.unsure("the machine was busy while the calls were timed", watch.said()))
        events.send("load", slower=round(watch.slower, 2), said=watch.said())


class _Comparing:
    """Compare some of the timed outputs, drawn at random before they are made.

    `compared`: the calls whose outputs are; where candidates have processes of their own, the reference's are not.
    """

    def __init__(self, calls: Mapping[str, TimedCall]) -> None:
        self.compared: Mapping[str, Any] = turns.suspects(calls) or calls
        self._chance = random.SystemRandom()
        self._began, self._spent = time.monotonic(), 0.0
        self._turns = dict.fromkeys(calls, 0)

    def choose(self, name: str) -> None:
        """Whether the output of the next sample is to be compared."""
        if name not in self.compared:
            return
        self._turns[name] += 1
        first = self._turns[name] <= _FIRST_TURNS
        room = first or self._spent < _COMPARING * (time.monotonic() - self._began)
        self.compared[name].wanted = room and self._chance.random() < (0.5 if first else RECHECKS)

    def __call__(self, name: str, number: int) -> None:
        """Compare it, if it was."""
        if name in self.compared and self.compared[name].wanted:
            began = time.monotonic()
            self.compared[name].wanted = False
            self.compared[name].recheck()
            self._spent += time.monotonic() - began


def _cross_checks(
    job: Job,
    calls: Mapping[str, TimedCall],
    samples: list[timing.Sample],
    clock: CudaClock,
    device: torch.device,
    events: Events,
    before: Callable[[str], None],
    after: Callable[[str, int], None],
    spent: _Spent,
) -> tuple[list[timing.Sample], float]:
    """The same calls by the caller's clock, as graphs where they are short, and as CUPTI records them.

    The number is the event pairs' own time [s], 0 when CUPTI could not tell it.
    """
    more = [] if job.again else _host(calls, device, events, before)
    spent.on("host")
    for name, call in calls.items() if not job.again else ():
        median = statistics.median(s.seconds for s in samples if s.impl == name)
        if median < SHORT:
            more += _graph(name, call, device, before)
    spent.on("graph")
    offset = 0.0
    try:
        judged, activities = _judged(job, calls, clock, before, after)
        more += judged
        spent.on("cupti")
        if not job.again:
            offset = cupti.event_offset(clock, device)
            spent.on("offset")
            cupti.write(activities, Path(job.timings).with_name("cupti.csv"))
    except (cupti.CuptiError, RuntimeError) as error:
        fix = "end other profilers (nsys, DCGM) on this device"
        _without(events, error, "CUPTI could not judge the event timings", fix)
    return more, offset


def _only_of_clocks(error: Exception) -> None:
    """Raise the error again unless it says no more than that a clock did not work there."""
    if isinstance(error, RemoteError) and error.status:
        raise error


def _without(events: Events, error: Exception, what: str, fix: str = "") -> None:
    """Go on without a clock that did not work, and say so in a caveat."""
    _only_of_clocks(error)
    traceback.print_exc()
    events.send("caveat", what=what, how_much=str(error).partition("\n")[0], fix=fix)


def _from_outside(
    calls: Mapping[str, TimedCall],
    samples: list[timing.Sample],
    device: torch.device,
    events: Events,
    before: Callable[[str], None],
) -> list[timing.Sample]:
    """All samples, those of candidates raised to their outside bound, and the outside samples."""
    bounds, exams, watch = _look(calls, samples, device, before)
    if bounds:
        # Another look: what else ran on the machine may have made it slow.
        again, exams, other = _look(calls, samples, device, before)
        bounds = {name: min(least, again[name]) for name, least in bounds.items() if name in again}
        watch = max(watch, other, key=lambda one: one.slower)
    for exam in exams:
        least = bounds.get(exam.impl, 0.0)
        if not least or outside.launching(exam, calls[exam.impl], samples, device, before):
            continue
        load = watch.said() if watch.slower > 1.0 else ""
        events.send("caveat", exam.impl, **outside.caveat(exam, least, load))
        if not load:
            samples = outside.raised(samples, exam.impl, least)
    return samples + [sample for exam in exams for sample in exam.samples]


def _look(
    calls: Mapping[str, TimedCall],
    samples: list[timing.Sample],
    device: torch.device,
    before: Callable[[str], None],
) -> tuple[dict[str, float], list[outside.Exam], busy.Watch]:
    """(lower bounds that claims violate, the exams, the load meanwhile) of one look from outside."""
    watch = busy.Watch()

    def visit(name: str) -> None:
        watch.look()
        before(name)

    exams = outside.examine(calls, samples, device, visit)
    return outside.bounds(exams, turns.suspects(calls), outside.MARGIN[device.type]), exams, watch


def _best_again(
    job: Job,
    calls: Mapping[str, TimedCall],
    clock: CudaClock | CpuClock,
    samples: list[timing.Sample],
    offset: float,
    full: float,
    before: Callable[[str], None],
    after: Callable[[str, int], None],
) -> tuple[str, list[timing.Sample]]:
    """(the fastest of several candidates, fresh samples of it and of the reference); ("", []) for fewer. full: the
    highest SM clock [Hz].
    """
    references = [subject.name for subject in job.subjects if subject.role == "reference"]
    best = winner.fastest(samples, [name for name in calls if name not in references])
    if not best or not set(references) & set(calls):
        return "", []
    pair = {name: calls[name] for name in (*references, best)}
    fresh = timing.measure(
        pair,
        turns.over(clock, pair),
        budget=job.budget,
        target=job.target,
        before=before,
        after=after,
        seed=1,
    ).samples
    fresh = [_less(sample, offset) for sample in timing.drop_slow_rounds(fresh, full)]
    if any(sample.method == "cupti" for sample in samples) and isinstance(clock, CudaClock):
        try:
            fresh += _judged(job, pair, clock, before, after)[0]
        except (cupti.CuptiError, RuntimeError) as error:
            _only_of_clocks(error)
            # CUPTI's first samples decide then, and the luck in them stays a caveat.
            traceback.print_exc()
            return "", []
    return best, fresh


def _less(sample: timing.Sample, offset: float) -> timing.Sample:
    """The sample without the event pair's own time [s]; nothing left means nothing measured."""
    seconds = sample.seconds - offset
    return replace(sample, seconds=seconds, kept=sample.kept if seconds > 0 else 0)


def _host(
    calls: Mapping[str, TimedCall],
    device: torch.device,
    events: Events,
    before: Callable[[str], None],
) -> list[timing.Sample]:
    """The caller's view; none (and a caveat) when it fails."""
    clock = turns.over(HostClock(device), calls)
    try:
        return timing.measure(calls, clock, budget=1.0, target=0.0, before=before, most=SIDE_ROUNDS, trials=1).samples
    except RuntimeError as error:
        _without(events, error, "the caller's view could not be timed")
        return []


def _judged(
    job: Job,
    calls: Mapping[str, TimedCall],
    clock: CudaClock,
    before: Callable[[str], None],
    after: Callable[[str, int], None],
) -> tuple[list[timing.Sample], dict[str, list[cupti.Activity]]]:
    """CUPTI's samples, in as many recordings as the wanted precision takes and the budget allows."""
    end = time.monotonic() + job.budget
    samples, activities = cupti.sample(calls, clock, target=job.target, before=before, after=after)
    for number in range(1, MOST_RECORDINGS):
        if timing.precision(samples) <= job.target or time.monotonic() > end:
            break
        more, _ = cupti.sample(calls, clock, target=job.target, before=before, after=after, seed=number)
        samples += [replace(s, round=s.round + number * cupti.ROUNDS) for s in more]
    return samples, activities


def _graph(name: str, call: TimedCall, device: torch.device, before: Callable[[str], None]) -> list[timing.Sample]:
    """Graph samples of one call, none when it cannot be captured."""
    try:
        clock = turns.over(GraphClock(device), {name: call})
        return timing.measure(
            {name: call}, clock, budget=0.5, target=0.0, before=before, most=SIDE_ROUNDS, trials=1
        ).samples
    except RuntimeError as error:
        _only_of_clocks(error)
        traceback.print_exc()
        torch.cuda.synchronize(device)
        return []
