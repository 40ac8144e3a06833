"""All the ways of timing one set of calls, in the order that disturbs them least."""

from __future__ import annotations

import random
import statistics
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from profkit.launch.protocol import Job
from profkit.runner import busy, cupti, energy, facts, outside, timing, turns, winner
from profkit.runner.clocks import CpuClock, CudaClock, GraphClock, HostClock
from profkit.runner.events import Events
from profkit.runner.remote import RemoteError
from profkit.runner.subject import TimedCall

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
_FEW, _FEWER = {"least": 8, "trials": 2}, {"least": timing.DECIDING, "most": timing.DECIDING, "trials": 1}
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
    follows. Where CUPTI cannot, the event pairs decide and run to that precision. A cross-check that fails is a doubt, never the end.
    """
    spent = _Spent()
    cold = job.l2 == "cold"
    own = CudaClock(device, cold=cold) if device.type == "cuda" else CpuClock(cold=cold)
    clock = turns.over(own, calls)

    after = _Comparing(calls)

    def before(name: str) -> None:
        turn(name)
        calls[name].turn()
        after.choose(name)

    watch = busy.Watch()

    def visit(name: str) -> None:
        watch.look()
        before(name)

    compared = isinstance(own, CudaClock)
    share, target = (_AGREEING, max(job.target, _AGREED)) if compared else (1.0, job.target)

    def timed(budget: float, target: float, **rounds: int) -> timing.Result:
        result = timing.measure(calls, clock, budget=budget, target=target, before=visit, after=after, **rounds)
        _say_load(watch, events)
        for name, call in after.compared.items():
            before(name)
            call()
            call.recheck()
        spent.on(clock.method)
        return result

    result = timed(share * job.budget, target, **(_FEWER if job.again else _FEW) if compared else {})
    full = float(facts.device_facts(device).get("max_sm_clock", 0.0))
    samples, scant = timing.drop_slow_rounds(result.samples, full), False

    def write() -> None:
        told = [one for one in samples if one.method != "event"] if scant else samples
        timing.write(told, Path(job.timings))

    write()
    notes, offset = {clock.method: turns.notes(calls, clock)}, 0.0
    if isinstance(own, CudaClock):
        more, offset = _cross_checks(job, calls, samples, own, device, events, before, after, spent)
        if not any(sample.method == "cupti" for sample in more):
            result = timed((1 - share) * job.budget, job.target)
            samples = timing.drop_slow_rounds(result.samples, full)
        else:
            # So few pairs are no witness.
            scant = job.again
        samples = [_less(s, offset) for s in samples] + more
        write()
        notes |= {"host": HostClock.note, "graph": GraphClock.note, "cupti": cupti.NOTE}
        notes["event"] += f"; less {offset * 1e6:.2f} us, what the pair reads on an empty kernel" if offset else ""
    dropped = sum(not sample.kept for sample in samples)
    best, fresh = ("", []) if job.again else _best_again(job, calls, own, samples, offset, full, before, after)
    if best:
        dropped += sum(not sample.kept for sample in fresh)
        samples = winner.replaced(samples, fresh, best)
        write()
        for method in {sample.method for sample in fresh}:
            notes[method] += f"; {best}, the fastest of {len(calls) - 1}, timed again"
            notes[method + winner.FIRST] = f"the samples by which {best} was found the fastest"
        spent.on("best again")
    if turns.suspects(calls):
        samples = _from_outside(calls, samples, device, events, before)
        write()
        notes[outside.METHOD] = outside.NOTE
        spent.on(outside.METHOD)
    joules = energy.per_call(calls, samples, device, before) if job.energy and not job.again else {}
    spent.on("energy" if joules else "")
    used = {sample.method for sample in samples}
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
        "dropped": dropped,
        "offset": offset,
        "energy": joules,
        "seconds": spent.seconds,
        "notes": {name: note for name, note in notes.items() if name in used},
    }


def ready(job: Job, calls: Mapping[str, TimedCall], device: torch.device) -> None:
    """What does not need the device alone: where no caller's clock follows, which it would slow down, CUPTI sets itself up."""
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
    """A doubt when the machine had more to do than this measurement."""
    if watch.slower > _LOADED and watch.pressure > _PRESSED:
        events.send("doubt", **busy.unsure("the machine was busy while the calls were timed", watch.said()))


class _Comparing:
    """Compares some of the timed outputs: which ones nobody can know before. `compared`: whose; where candidates have processes of
    their own, nothing in this one can have changed.
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
        _only_of_clocks(error)
        traceback.print_exc()
        events.send(
            "doubt",
            what="CUPTI could not judge the event timings",
            how_much=str(error).partition("\n")[0],
            fix="end other profilers (nsys, DCGM) on this device",
        )
    return more, offset


def _only_of_clocks(error: Exception) -> None:
    """Raise it again when it says what a candidate's process did, and not only that a clock did not work there."""
    if isinstance(error, RemoteError) and error.status:
        raise error


def _from_outside(
    calls: Mapping[str, TimedCall],
    samples: list[timing.Sample],
    device: torch.device,
    events: Events,
    before: Callable[[str], None],
) -> list[timing.Sample]:
    """All samples, those of candidates no less than what is seen from outside, and what was seen."""
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
        events.send("doubt", exam.impl, **outside.caveat(exam, least, load))
        if not load:
            samples = outside.raised(samples, exam.impl, least)
    return samples + [sample for exam in exams for sample in exam.samples]


def _look(
    calls: Mapping[str, TimedCall],
    samples: list[timing.Sample],
    device: torch.device,
    before: Callable[[str], None],
) -> tuple[dict[str, float], list[outside.Exam], busy.Watch]:
    """(the bounds that claims are below, what was seen, the machine's load meanwhile) of one cross-examination."""
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
            # CUPTI's first samples decide then, and the luck in them stays a doubt.
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
    """The caller's view; none (and a doubt) when it fails."""
    clock = turns.over(HostClock(device), calls)
    try:
        return timing.measure(calls, clock, budget=1.0, target=0.0, before=before, most=SIDE_ROUNDS, trials=1).samples
    except RuntimeError as error:
        _only_of_clocks(error)
        traceback.print_exc()
        events.send(
            "doubt",
            what="the caller's view could not be timed",
            how_much=str(error).partition("\n")[0],
            fix="",
        )
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
