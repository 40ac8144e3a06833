"""All timing methods for one set of calls, in the order that disturbs them least."""

from __future__ import annotations

import functools
import random
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from profkit.guest import facts
from profkit.guest.clocks import cupti, timing
from profkit.guest.clocks.clocks import SETTLE, CpuClock, CudaClock, HostClock
from profkit.guest.clocks.timing import Sample
from profkit.guest.subject import TimedCall
from profkit.judge.remote import RemoteError
from profkit.judge.timing import claims, company, outside
from profkit.launch.protocol import Events, Job

SIDE_ROUNDS = 12
RECHECKS = 1 / 8
"""Share of timed calls to compare, at random; half of the first calls."""
_FIRST_TURNS = 8
_LOADED = 2.0
_PRESSED = 0.3
_AGREEING, _AGREED = 0.3, 0.01
"""Share of the budget for event pairs, and their precision, if CUPTI decides."""
_FEW: Mapping[str, Any] = {"least": 8, "trials": 2, "late": 3}
_FEWER: Mapping[str, Any] = {"least": timing.DECIDING, "most": timing.DECIDING, "trials": 1}
"""Rounds of event pairs then; fewer in repeated jobs, which only need the launch time."""
_COMPARING = 0.25
"""Share of the time for comparisons."""
MOST_RECORDINGS = 6
"""Most CUPTI recordings; each holds its records in memory, so long measurements need several."""


def time_all(
    job: Job, calls: Mapping[str, TimedCall], device: torch.device, events: Events, turn: Callable[[str], None]
) -> dict[str, Any]:
    """Write timings.csv and cupti.csv; return the data of the event "timing".

    On a CPU the wall clock runs to the wanted precision. On CUDA: event pairs, to check CUPTI; the host's clock; then
    CUPTI, which decides. `again` runs CUPTI only. Without CUPTI the event pairs decide and run to that precision. A
    failed cross-check is a caveat.
    """
    timed = _Timed(job, calls, device, events, turn)
    if isinstance(timed.own, CudaClock):
        timed.by_events(timed.own)
    else:
        reference = next((one.name for one in job.subjects if one.role == "reference"), "")
        apart = functools.partial(timing.apart, reference=reference, by=job.clear)
        timed.measure(timing.Plan(job.budget, job.target, enough=apart if job.clear else None))
    timed.write()
    if claims.suspects(calls):
        timed.bound()
    used = {sample.method for sample in timed.samples}
    result, clock = timed.result, timed.own
    return {
        "method": clock.method,
        "note": clock.note,
        "l2": clock.l2,
        "flush_bytes": clock.flush_bytes,
        "rounds": result.rounds,
        "target": job.target,
        "notes": {name: note for name, note in timed.notes.items() if name in used},
    }


class _Timed:
    """Clocks and samples of one set of calls; `offset`: overhead of an event pair [s]."""

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
        settle = SETTLE if job.mode == "judge" else 0.0
        self.own = CudaClock(device, cold=cold) if device.type == "cuda" else CpuClock(cold=cold, settle=settle)
        self._after, self._watch = _Comparing(calls), company.Watch()
        self._full = float(facts.device_facts(device).get("max_sm_clock", 0.0))
        self.samples: list[Sample] = []
        self.notes: dict[str, str] = {}
        self._scant, self.offset = False, 0.0

    def before(self, name: str) -> None:
        """Change an implementation's data, and decide whether to compare the output."""
        self._turn(name)
        self._calls[name].turn()
        self._after.choose(name)

    def _visitor(self, watch: company.Watch, before: Callable[[str], None]) -> Callable[[str], None]:
        def visit(name: str) -> None:
            watch.look()
            before(name)

        return visit

    def measure(self, plan: timing.Plan) -> None:
        """Take samples by the clock; all outputs are compared once at the end."""
        self.result = timing.measure(self._calls, self.own, plan, self._visitor(self._watch, self.before), self._after)
        if self._watch.slower > _LOADED and self._watch.pressure > _PRESSED:
            said = self._watch.said()
            self._events.send("caveat", **company.unsure("the machine was busy while the calls were timed", said))
            self._events.send("load", slower=round(self._watch.slower, 2), said=said)
        for name, call in self._after.compared.items():
            self.before(name)
            call()
            call.recheck()
        self.samples = timing.drop_slow_rounds(self.result.samples, self._full)
        self.notes[self.own.method] = claims.note(self._calls, self.own)

    def by_events(self, clock: CudaClock) -> None:
        """Time by event pairs and cross-check them."""
        job = self._job
        few = _FEWER if job.again else _FEW
        self.measure(timing.Plan(_AGREEING * job.budget, max(job.target, _AGREED), **few))
        self.write()
        more = self._cross_checks(clock)
        if any(sample.method == "cupti" for sample in more):
            self._scant = job.again
        else:
            self.measure(timing.Plan((1 - _AGREEING) * job.budget, job.target))
        self.samples = [self._less(sample) for sample in self.samples] + more
        self.notes |= {"host": HostClock.note, "cupti": cupti.NOTE}
        if self.offset:
            self.notes["event"] += f"; less {self.offset * 1e6:.2f} us, what the pair reads on an empty kernel"

    def _cross_checks(self, clock: CudaClock) -> list[Sample]:
        """Time the same calls by the host's clock and by CUPTI; sets `offset`."""
        job = self._job
        more = [] if job.again else self._host()
        try:
            judged, activities = _judged(job, self._calls, clock, self.before, self._after)
            more += judged
            if not job.again:
                cupti.write(activities, Path(job.timings).with_name("cupti.csv"))
                self.offset = cupti.event_offset(clock, self._device)
        except (cupti.CuptiError, RuntimeError) as error:
            self._without(
                error, "CUPTI could not judge the event timings", "stop other profilers (nsys, DCGM) on this device"
            )
        return more

    def _host(self) -> list[Sample]:
        """Samples by the host's clock; none, and a caveat, on failure."""
        try:
            clock = HostClock(self._device)
            plan = timing.Plan(min(1.0, self._job.budget), 0.0, most=SIDE_ROUNDS, trials=1, late=timing.DECIDING)
            return timing.measure(self._calls, clock, plan, self.before).samples
        except RuntimeError as error:
            self._without(error, "the caller's view could not be timed", "")
            return []

    def _without(self, error: Exception, what: str, fix: str) -> None:
        """Continue without a failed clock, with a caveat; raise a candidate's own failure."""
        if isinstance(error, RemoteError) and error.status:
            raise error
        traceback.print_exc()
        self._events.send("caveat", what=what, how_much=str(error).partition("\n")[0], fix=fix)

    def _less(self, sample: Sample) -> Sample:
        """The sample minus the event pair's overhead; dropped if nothing is left."""
        seconds = sample.seconds - self.offset
        return replace(sample, seconds=seconds, kept=sample.kept if seconds > 0 else 0)

    def bound(self) -> None:
        """Raise candidates to their outside bound by the judge's clock, and add the outside samples."""
        samples = self.samples
        bounds, exams, watch = self._look()
        if bounds:
            # Look again: other load may have made it slow.
            again, exams, other = self._look()
            bounds = {name: min(least, again[name]) for name, least in bounds.items() if name in again}
            watch = max(watch, other, key=lambda one: one.slower)
        for exam in exams:
            least = bounds.get(exam.impl, 0.0)
            if not least or outside.launching(exam, self._calls[exam.impl], samples, self._device, self._turn):
                continue
            load = watch.said() if watch.slower > 1.0 else ""
            self._events.send("caveat", exam.impl, **outside.caveat(exam, least, load))
            if not load:
                samples = outside.raised(samples, exam.impl, least)
        self.samples = samples + [sample for exam in exams for sample in exam.samples]
        self.write()
        self.notes[outside.METHOD] = outside.NOTE

    def _look(self) -> tuple[dict[str, float], list[outside.Exam], company.Watch]:
        """(violated lower bounds, exams, load) of one outside measurement."""
        watch = company.Watch()
        # Batches change the data themselves.
        exams = outside.examine(self._calls, self.samples, self._device, self._visitor(watch, self._turn))
        return outside.bounds(exams, claims.suspects(self._calls), outside.MARGIN[self._device.type]), exams, watch

    def write(self) -> None:
        kept = [one for one in self.samples if one.method != "event"] if self._scant else self.samples
        timing.write(kept, Path(self._job.timings))


class _Comparing:
    """Compare some timed outputs of other processes, chosen at random before the call."""

    def __init__(self, calls: Mapping[str, TimedCall]) -> None:
        self.compared = claims.suspects(calls)
        self._chance = random.SystemRandom()
        self._began, self._spent = time.monotonic(), 0.0
        self._turns = dict.fromkeys(calls, 0)

    def choose(self, name: str) -> None:
        """Choose whether the next output is compared."""
        if name not in self.compared:
            return
        self._turns[name] += 1
        often = 0.5 if self._turns[name] <= _FIRST_TURNS else RECHECKS
        room = self._spent <= _COMPARING * (time.monotonic() - self._began)
        self.compared[name].wanted = room and self._chance.random() < often

    def __call__(self, name: str, number: int) -> None:
        if name in self.compared and self.compared[name].wanted:
            began = time.monotonic()
            self.compared[name].wanted = False
            self.compared[name].recheck()
            self._spent += time.monotonic() - began


def _judged(
    job: Job,
    calls: Mapping[str, TimedCall],
    clock: CudaClock,
    before: Callable[[str], None],
    after: Callable[[str, int], None],
) -> tuple[list[Sample], dict[str, list[cupti.Activity]]]:
    """CUPTI's samples, in as many recordings as the precision needs and the budget allows."""
    end = time.monotonic() + job.budget
    samples, activities = list[Sample](), dict[str, list[cupti.Activity]]()
    for number in range(MOST_RECORDINGS):
        left = max(0.0, end - time.monotonic())
        more, seen = cupti.sample(
            calls, clock, target=job.target, budget=left, number=number, before=before, after=after
        )
        samples, activities = samples + more, activities or seen
        if timing.precision(samples) <= job.target or time.monotonic() > end:
            break
    return samples, activities
