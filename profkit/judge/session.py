"""One job: load, check, time; or make the calls that another tool records."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import torch

from profkit.guest import facts, heap, settings
from profkit.guest.build import loading
from profkit.guest.tensors import inputs, state
from profkit.guest.tensors.compare import Left, Verdict
from profkit.judge import cases, implementation, trials
from profkit.judge import guests as judge
from profkit.judge.events import Events
from profkit.judge.implementation import Implementation, RemoteImplementation
from profkit.judge.modes import Modes
from profkit.judge.weight_checks import WeightChecks
from profkit.launch import cache, walls
from profkit.launch.protocol import PATIENT, Job, Subject


def run(job: Job, events: Events) -> None:
    """Do the job. A candidate's failure is an event; only what ends the process is raised."""
    try:
        Session(job, events).run()
    finally:
        if job.trials and job.seeds:
            events.send("seeds", seeds=job.seeds)
        loading.release_all()


class Session(Modes):
    """One job: the reference here, its candidates here or in processes of their own."""

    def __init__(self, job: Job, events: Events) -> None:
        super().__init__(job, events)
        self._weights = WeightChecks(self)

    def run(self) -> None:
        self.events.send("facts", device=facts.device_facts(self.device), versions=facts.versions())
        torch.set_grad_enabled(False)
        if self.device.type == "cuda":
            loading.one_architecture(self.device)
            if self._job.lines:
                loading.with_line_tables()
        else:
            heap.keep()
        candidates = self._load()
        if candidates is None:
            return
        if self._job.mode == "counters":
            self._annotated_calls([self.reference, *candidates])
        elif self._job.mode == "perturb":
            self._perturb([self.reference, *candidates])
        elif self._job.mode == "sanitize":
            self._single_calls(candidates)
        elif self._answers():
            self._measure(candidates)

    def _measure(self, candidates: list[Implementation]) -> None:
        self._vary()
        self._enliven()
        self._remember()
        if not (self._job.again or self._job.probe):
            self._work()
        self._probe()
        sound = [candidate for candidate in candidates if self._check(candidate)]
        again = self._job.again
        judge.let_go(c for c in candidates if c not in sound)
        self._begin_afresh(False)
        # First of all the answer; what may amend it comes after.
        self.events.send("checked", sound=[one.subject.name for one in sound])
        sound = self._time([self.reference, *sound])[1:]
        if not again:
            sound = self._stressed(sound)
        if self._spared:
            # Who is gone is asked for nothing more: all begin anew, and these are not asked for that again.
            judge.let_go(candidates)
            self._company.leave()
            return
        if not again and (self._served() or self._job.shapes):
            sound = self._more_shapes(sound)
        if (self._job.backward or getattr(self.reference.module, "backward", False) is True) and not again:
            sound = self._backward(sound)
        asked = self._weights.follow([] if again else [one for one in sound if not one.gone])
        # What may bring a process down comes last, and only where there is one for each.
        apart = [c for c in asked if c.remote and not c.gone]
        left = self._hold(apart, cases.FORMS)
        self.forget([one for one in apart if one not in left])
        judge.let_go(candidates)
        self._company.leave()
        if self.device.type == "cpu" and not (again or cache.ceilings(facts.device_facts(self.device)).exists()):
            self._ceilings()

    def _stressed(self, timed: list[Implementation]) -> list[Implementation]:
        """Those that bear other values as well; the samples of the others go."""
        self._begin_afresh(True)
        left = self._hold(timed, cases.VALUES)
        self._begin_afresh(False)
        wrong = [one for one in timed if one not in left]
        judge.let_go(wrong)
        self.forget(wrong)
        return left

    def _load(self) -> list[Implementation] | None:
        """The candidates that could be built; None when the reference could not."""
        job = self._job
        if job.mode == "judge" and (lacks := walls.caveat()):
            self.events.send("caveat", **lacks)
        remotes = judge.loaded(job, self.device, self.events, self._company) if job.mode == "judge" else []
        self._company.join()
        job.seeds = job.seeds or judge.draw(job.trials)
        seed = self.built_with = self._unlike(job.seeds[0] if job.seeds else 0)
        subject = next(subject for subject in job.subjects if subject.role == "reference")
        first = self._built(subject, lambda: implementation.reference(job, subject, seed, self.device))
        if first is None:
            return None
        self.reference = first
        self.events.send("allowed", precisions=[str(one) for one in getattr(first.module, "allowed_precisions", ())])
        if job.mode == "judge":
            return judge.build(remotes, first, seed, self.events)
        return self._load_here(seed)

    def _load_here(self, seed: int) -> list[Implementation]:
        found = []
        for subject in self._job.subjects:
            if subject.role != "reference":
                built = self._built(subject, lambda s=subject: self._candidate(s, seed))  # type: ignore[misc]
                if built is not None:
                    found.append(built)
        return found

    def _candidate(self, subject: Subject, seed: int) -> Implementation:
        return implementation.candidate(self._job, subject, self.reference, seed, self.device)

    def _built(self, subject: Subject, build: Callable[[], Implementation]) -> Implementation | None:
        """The result of `build`; None, and an event, when it fails."""
        self.events.phase("load" if subject.role == "reference" else "build", subject.name)
        began, switches = time.perf_counter(), settings.read()
        built = None
        with self.blame(subject, "load-error"):
            built = build()
        if subject.role != "reference":
            settings.keep(switches, subject.name, self.events)
        if built is not None:
            self.events.send("impl", subject.name, status="loaded", build_seconds=time.perf_counter() - began)
        return built

    def _check(self, candidate: Implementation) -> bool:
        """Compare on every seed until the first failure. True when the candidate may be timed."""
        name = candidate.subject.name
        with self.blame(candidate.subject, "error") as failed:
            self._weights.give(candidate)
            if self._state.tells:
                candidate.keep(self._state.values)
        if failed:
            return False
        verdict = self.compared(candidate)
        for wanted, more in (
            (
                verdict is not None and verdict.status in ("mismatch", "nan") and candidate.alive,
                self._weights.explained,
            ),
            (verdict is not None and verdict.status == "ok" and self._state.binding, self._leaves),
        ):
            if wanted and verdict is not None:
                with self.blame(candidate.subject, "error") as failed:
                    verdict = more(candidate, verdict)
                if failed:
                    return False
        if verdict is not None:
            self.events.send("impl", name, status=verdict.status, reason=verdict.what)
        return verdict is not None and verdict.status == "ok"

    def _leaves(self, candidate: Implementation, verdict: Verdict) -> Verdict:
        """Compare the state left for the next call; send a caveat for names it does not have."""
        name, arguments, seed = candidate.subject.name, self.unseen(), judge.draw(1)[0]
        values = {one: value for one, value in self._state.values.items() if one in self._state.binding}
        got = candidate.left(inputs.clone(arguments), seed, values)
        self.put(candidate.alive)
        want = self.reference.left(inputs.clone(arguments), seed, values)
        state.put(self.reference.model, self._state.values)
        if lacks := sorted(set(want) - set(got)):
            self.events.send(
                "caveat",
                name,
                what=f"state: whether {name} keeps what the reference keeps from call to call is not known",
                how_much=f"it has no buffer named {', '.join(lacks[:4])}",
                fix="name what it keeps as the reference does",
                code="state-unfollowed",
            )
        both = sorted(set(want) & set(got))
        if self.reference.probe.random:
            return verdict
        mine, theirs, before = ({one: held[one] for one in both} for held in (got, want, values))
        case = self.oracle.case(arguments, Left(before, theirs), state.keeping(both))
        found = case.judged(Left(before, mine), strict=True)
        if found.status == "ok":
            return verdict
        return Verdict(
            "mismatch", f"leaves other values than the reference does: {found.what.replace('output', 'state', 1)}"
        )

    def compared(self, candidate: Implementation) -> Verdict | None:
        """The verdict of the trials, the first failure if any; None after an exception."""
        name = candidate.subject.name
        asked = self._trials(candidate)
        least, verdict, worst = 0.0, Verdict("ok"), math.inf
        for number, (seed, shape) in enumerate(self._rounds()):
            # The first call is a phase of its own: something may still be compiled in it (Triton).
            self.events.phase("check" if number else "first", name, least=least)
            began = self._company.clock()
            with self.blame(candidate.subject, "error") as failed:
                verdict = asked.on(self._fresh(seed, shape), self._unlike(seed), exact=not number, drawn=shape is None)
                facts.settle(self.device)
            if failed:
                return None
            least = max(least, PATIENT * (self._company.clock() - began))
            if verdict.what and shape is not None:
                verdict = replace(verdict, what=f"get_more_inputs()[{shape}]: {verdict.what}")
            self.events.send("check", name, seed=seed, **asdict(verdict))
            if verdict.status != "ok":
                return verdict
            worst = min(worst, math.inf if verdict.bits is None else verdict.bits)
        candidate.bits = worst
        return verdict

    def _trials(self, candidate: Implementation) -> trials.Trials:
        """Trials with the generators as they are at the call."""
        if isinstance(candidate, RemoteImplementation):
            candidate.model.expected = self._bytes

        def ask(arguments: list[Any]) -> Any:
            switches = settings.read()
            output = candidate.plain(arguments, torch.initial_seed())
            facts.settle(self.device)
            settings.keep(switches, candidate.subject.name, self._once, called=True)
            return output

        answer = functools.partial(self.answer, alive=candidate.alive)
        return trials.Trials(ask, answer, self.oracle, self.reference.probe)
