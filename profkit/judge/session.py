"""One job: load, check, time; or make the calls for another tool to record."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any

import torch

from profkit.errors import ProfkitError
from profkit.guest import facts, settings
from profkit.guest.build import loading
from profkit.guest.implementation import Implementation
from profkit.guest.tensors import inputs, state
from profkit.guest.tensors.compare import Left, Verdict, same, tensors
from profkit.judge import cases
from profkit.judge import guests as judge
from profkit.judge.precision import probe as tried
from profkit.judge.precision import twin
from profkit.judge.precision.bits import ANSWER, OWN_TYPES
from profkit.judge.remote import Remote
from profkit.judge.timed import annotated
from profkit.judge.weight_checks import UPDATED, WeightChecks
from profkit.launch import cache, walls
from profkit.launch.alone import counting
from profkit.launch.protocol import PATIENT, Events, Job, Subject
from profkit.torch_tools import ceilings, perturb
from roofline.errors import RooflineError


def run(job: Job, events: Events) -> None:
    """Run the job. A candidate's failure is an event; only fatal errors are raised."""
    try:
        Session(job, events).run()
    finally:
        if job.trials and job.seeds:
            events.send("seeds", seeds=job.seeds)


class Session(WeightChecks):
    """One job: the reference in this process, candidates judged in their own."""

    _ceilings_sent = False

    def run(self) -> None:
        self.events.send("facts", device=facts.device_facts(self.device), versions=facts.versions())
        torch.set_grad_enabled(False)
        if self.device.type == "cuda":
            loading.one_architecture(self.device)
            if self._job.lines:
                loading.with_line_tables()
        else:
            facts.keep_heap(self._job.mode != "judge")
        candidates = self._load()
        if candidates is None:
            return
        every = [self.reference, *candidates]
        if self._job.mode == "counters":
            self._one_by_one(every, "build", self._counted)
        elif self._job.mode == "perturb":
            self._one_by_one(every, "first", functools.partial(self._perturbed, self._resident()))
        elif self._job.mode == "sanitize":
            told = functools.partial(self.events.send, "impl", status="counted")
            self._one_by_one(candidates, "sanitize", lambda one, _: told(one.subject.name))
        elif self._answers():
            self._measure(candidates)

    def _measure(self, candidates: list[Remote]) -> None:
        self._vary()
        self._enliven()
        self._remember()
        if not self._job.again:
            self._work()
        self._probe()
        sound = [candidate for candidate in candidates if self._check(candidate)]
        again = self._job.again
        judge.let_go(c for c in candidates if c not in sound)
        self._begin_afresh(False)
        if (truth := self.oracle.precision.truth) in (ANSWER, OWN_TYPES):
            fix = "compare smaller shapes too, in get_more_inputs()"
            self.events.send("caveat", what="the reference was not evaluated in float64", how_much=truth, fix=fix)
        # First of all the answer; what may amend it comes after.
        self.events.send("checked", sound=[one.subject.name for one in sound])
        # A reference is timed for candidates to compare with it, or alone.
        if sound or len(self._job.subjects) == 1:
            sound = self._time(sound)
        if sound and not again:
            self._amend(sound)
        judge.let_go(candidates)
        self._company.leave()
        if self._ceilings_unknown:
            if judge.left_alone(self._remotes):
                ceilings.send(self.events, self.device)
            else:
                ceilings.missing(self.events, "a candidate's process does not end")

    def _amend(self, sound: list[Remote]) -> None:
        """Time shapes and gradients; then try what may bring a process down."""
        if self._served() or self._job.shapes:
            sound = self._more_shapes(sound)
        if self.differentiated:
            sound = self._backward(sound)
        self._begin_afresh(True)
        sound = [one for one in self._ask(sound) if not one.gone]
        self._begin_afresh(False)
        if self.device.type == "cpu":
            self._operators(sound)
        self._hold(sound, cases.quietly(self._weight_trials()))

    @property
    def _ceilings_unknown(self) -> bool:
        """Whether the device's ceilings are to be measured in passing."""
        # On a GPU that others use too nothing that is measured in passing would be a peak.
        beside = self.device.type != "cpu" and self._job.shared
        known = self._job.again or beside or self._ceilings_sent
        return not known and not cache.ceilings(facts.device_facts(self.device)).exists()

    def _while_compiling(self) -> None:
        """A compiler leaves the GPU free for its ceilings."""
        if self._ceilings_unknown:
            self._ceilings_sent = True
            ceilings.send(self.events, self.device)

    def _operators(self, sound: list[Remote]) -> None:
        """Record the operators of one call of each implementation, for advice only."""
        arguments, seed = self.unseen(), judge.draw(1)[0]
        for candidate in sound:
            candidate.forgiven = True
        every: list[Any] = [self.reference, *sound]
        for one in every:
            with self.finding(f"the operators of {one.subject.name} were not recorded"):
                self.events.send("operators", one.subject.name, **one.operators(inputs.clone(arguments), seed))

    def _load(self) -> list[Any] | None:
        """Build all candidates; return the successful ones, None if the reference failed.

        Each is a Remote for the judge, else an Implementation in this process.
        """
        job = self._job
        if job.mode == "judge" and not job.trust and (lacks := walls.caveat()):
            self.events.send("caveat", **lacks)
        subjects = [one for one in job.subjects if one.role != "reference"] if job.mode == "judge" else []
        self._remotes = [Remote(one, job, self.device, self.events, self._company) for one in subjects]
        idle = self._while_compiling if self.device.type == "cuda" and self._ceilings_unknown else None
        remotes = judge.loaded(self._remotes, job, self.events, idle)
        self._company.join()
        job.seeds = job.seeds or judge.draw(job.trials)
        seed = self.built_with = self._unlike(job.seeds[0] if job.seeds else 0)
        subject = next(subject for subject in job.subjects if subject.role == "reference")

        def construct() -> Implementation:
            # The host draws the weights: others may time meanwhile.
            with self._company.apart():
                return judge.reference(job, subject, seed, self.device)

        first = self._built(subject, construct)
        if first is None:
            return None
        self.reference = first
        self.events.send("allowed", precisions=[str(one) for one in getattr(first.module, "allowed_precisions", ())])
        if job.mode == "judge":
            return list(judge.build(remotes, first, seed, self.events))
        make = functools.partial(judge.candidate, job, first=first, seed=seed, device=self.device)
        built = [self._built(one, functools.partial(make, one)) for one in job.subjects if one.role != "reference"]
        return [one for one in built if one is not None]

    def _built(self, subject: Subject, build: Callable[[], Implementation]) -> Implementation | None:
        """Result of `build`; None, and an event, on failure."""
        self.events.phase("load" if subject.role == "reference" else "build", subject.name)
        began, built = time.perf_counter(), None
        own = contextlib.nullcontext() if subject.role == "reference" else settings.kept(subject.name, self.events.send)
        with self.blame(subject, "load-error"), own:
            built = build()
        if built is not None:
            self.events.send("impl", subject.name, status="loaded", build_seconds=time.perf_counter() - began)
        return built

    def _check(self, candidate: Remote) -> bool:
        """Compare on every seed until the first failure. True if the candidate may be timed."""
        with self.blame(candidate.subject, "error") as failed:
            candidate.share(self._room)
            self._give(candidate)
            if self._state.tells:
                candidate.do("keep", self._state.values)
            verdict = self.compared(candidate)
            if verdict.status in ("mismatch", "nan"):
                verdict = self._explained(candidate, verdict) or self.compared(candidate)
            if verdict.status == "ok" and self._state.binding:
                verdict = self._leaves(candidate, verdict)
            self.events.send("impl", candidate.subject.name, status=verdict.status, reason=verdict.what)
        return not failed and verdict.status == "ok"

    def _leaves(self, candidate: Remote, verdict: Verdict) -> Verdict:
        """Compare state left for the next call; missing names are a caveat."""
        name, arguments, seed = candidate.subject.name, self.unseen(), judge.draw(1)[0]
        values = {one: value for one, value in self._state.values.items() if one in self._state.binding}
        got = candidate.do("left", inputs.clone(arguments), seed, values)
        self.put(candidate.alive)
        want = self.reference.left(inputs.clone(arguments), seed, values)
        state.put(self.reference.model, self._state.values)
        if lacks := sorted(set(want) - set(got)):
            self.events.send(
                "caveat",
                name,
                what=f"state: not known whether {name} keeps what the reference keeps between calls",
                how_much=f"it has no buffer named {', '.join(lacks[:4])}",
                fix="name its state as the reference does",
                code="state-unfollowed",
            )
        both = sorted(set(want) & set(got))
        if self.probe.random:
            return verdict
        mine, theirs, before = ({one: held[one] for one in both} for held in (got, want, values))
        case = self.oracle.case(arguments, Left(before, theirs), state.keeping(both))
        found = case.judged(Left(before, mine), strict=True)
        if found.status == "ok":
            return verdict
        return Verdict(
            "mismatch", f"leaves other values than the reference does: {found.what.replace('output', 'state', 1)}"
        )

    def compared(self, candidate: Remote) -> Verdict:
        """The verdict of the trials, or the first failure."""
        name = candidate.subject.name
        least, verdict, worst = 0.0, Verdict("ok"), math.inf
        for number, (seed, shape) in enumerate(self._rounds()):
            # The first call is a phase of its own: something may still be compiled in it (Triton).
            self.events.phase("check" if number else "first", name, least=least)
            began = self._company.clock()
            given = self._fresh(seed, shape)
            verdict = self._trial(candidate, given, self._unlike(seed), exact=not number, drawn=shape is None)
            facts.settle(self.device)
            least = max(least, PATIENT * (self._company.clock() - began))
            if verdict.what and shape is not None:
                verdict = replace(verdict, what=f"get_more_inputs()[{shape}]: {verdict.what}")
            self.events.send("check", name, seed=seed, **asdict(verdict))
            if verdict.status != "ok":
                return verdict
            worst = min(worst, math.inf if verdict.bits is None else verdict.bits)
        candidate.bits = worst
        return verdict

    def _trial(self, candidate: Remote, arguments: list[Any], seed: int, *, exact: bool, drawn: bool) -> Verdict:
        """Compare on these arguments (consumed); the candidate runs first. exact: measure bits."""
        probe = self.probe
        got, mine = candidate.plain(arguments, seed)
        if not probe.mutates and mine is not arguments and not same(mine, arguments):
            return Verdict("mutates-inputs", f"changes its inputs: {_changes(mine, arguments)}")
        inputs.seed_all(seed)
        given = inputs.clone(arguments) if probe.mutates else arguments
        # The reference writes to the inputs: what the candidate left untouched stays as it was.
        mine = given if mine is arguments else mine
        want = self.answer(arguments, candidate.alive)
        if probe.random:
            return self.loosely(got, want)
        verdict = self.oracle.case(given, want, drawn=drawn).judged(got, exact=exact, full=True)
        if verdict.status == "ok" and probe.mutates:
            left = self.oracle.case(given, Left(given, arguments), twin.left).judged(Left(given, mine), strict=True)
            if left.status != "ok":
                what = left.what.replace("output", "input", 1)
                return Verdict("mismatch", f"leaves other values in its inputs than the reference does: {what}")
        return verdict

    # Jobs without a verdict

    def _one_by_one(
        self, implementations: list[Implementation], phase: str, act: Callable[[Implementation, list[Any]], None]
    ) -> None:
        """Call each implementation once, then `act` with its inputs; a failure is blamed on it."""
        arguments = self._fresh(self._job.seeds[-1] if self._job.seeds else 0)
        for one in implementations:
            self.events.phase(phase, one.subject.name)
            with self.blame(one.subject, "error"):
                mine = inputs.clone(arguments)
                one.call(mine)
                facts.settle(self.device)
                act(one, mine)

    def _counted(self, one: Implementation, arguments: list[Any]) -> None:
        """One call in the range sample / implementation / counters, for ncu.

        A shared device and its counters are locked only for the counted calls.
        """
        job, name = self._job, one.subject.name
        with contextlib.ExitStack() as held:
            with self._company.apart():
                held.enter_context(counting(job.shared, lambda _: self.events.phase("wait")))
            held.enter_context(self._company.alone())
            self.events.phase("count", name)
            held.enter_context(annotated(job.sample, name, "counters"))
            one.model(*arguments)
            facts.settle(self.device)
        self.events.send("impl", name, status="counted")

    def _perturbed(self, resident: perturb.Resident | None, one: Implementation, arguments: list[Any]) -> None:
        """Time it under changed conditions."""
        self.events.phase("time", one.subject.name, factor=2.0)
        call = functools.partial(one.model, *arguments)
        seconds = perturb.conditions(call, self.device, resident, self._job.budget / 2)
        self.events.send("perturbed", one.subject.name, seconds=seconds)

    def _resident(self) -> perturb.Resident | None:
        """Build the kernel that occupies SMs; None, and a caveat, on failure."""
        if self.device.type != "cuda":
            return None
        try:
            return perturb.Resident(self.device)
        except RooflineError as error:
            what = "runs with half of the SMs and half of every SM were skipped"
            self.events.send("caveat", what=what, how_much=str(error), fix=error.fix)
            return None

    # Unusual inputs

    def _ask(self, sound: list[Remote]) -> list[Remote]:
        """Check unusual inputs while time lasts; report those skipped."""
        missed: list[str] = []
        left = self._hold(sound, self._unusual(missed))
        self.no_time(missed, cases.PATIENCE)
        return left

    def _hold(self, sound: list[Remote], trials: Iterable[cases.Trial]) -> list[Remote]:
        """Check unusual inputs or weights; end and drop rejected candidates."""
        left = list(sound)
        if sound and not self.probe.random:
            self.events.phase("work", self.reference.subject.name, factor=2.0)
            for trial in trials:
                left = [one for one in left if one.gone or self._bears(one, trial)]
                del trial
                self.events.phase("work", self.reference.subject.name, factor=2.0)
        judge.let_go(one for one in sound if one not in left)
        return left

    def _bears(self, candidate: Remote, trial: cases.Trial) -> bool:
        """Whether a candidate passes one trial of unusual inputs or weights."""
        name = candidate.subject.name
        if trial.values and name in self._folded:
            return True
        self.events.phase("check", name)
        candidate.forgiven = not trial.binding
        try:
            got, verdict = self._tried(candidate, trial)
        except ProfkitError:
            raise
        except Exception as error:
            return self._refuses(candidate, trial, error)
        finally:
            candidate.forgiven = False
        if trial.kind == UPDATED:
            self._updated(candidate, verdict.status != "ok")
        if verdict.status == "ok" or trial.kind == UPDATED:
            return True
        with self.blame(candidate.subject, "error") as failed:
            if trial.values:
                candidate.do("take", self._held)
            usual = self.usual(candidate)
        if failed:
            return False
        what = ""
        if usual.status != "ok" and trial.values:
            self._folded.add(name)
            self.note(name, "weights are folded at the first update")
        elif usual.status != "ok":
            what = f"right in the trials, wrong in later calls on inputs of the same kind: {usual.what}"
            verdict = replace(verdict, status="stops-computing")
        elif trial.binding:
            right = "right for weights as they are constructed, wrong where "
            what = f"{trial.name.replace('weights where ', right)}: {verdict.what}"
        elif given := tried.gives(trial, got, self.probe, self._drawn):
            what = f"gives {given}, which is right only for the drawn inputs; wrong for {trial.name}"
            verdict = replace(verdict, status="mismatch")
        else:
            self.fragile(name, trial.name, verdict.what)
        if what:
            self.events.send("impl", name, status=verdict.status, reason=what)
        return not what

    def _tried(self, candidate: Remote, trial: cases.Trial) -> tuple[Any, Verdict]:
        if trial.values:
            candidate.do("take", {**self._held, **trial.values})
        got, _ = candidate.plain(trial.arguments, 0)
        if trial.values or candidate.alive == self.live.live.keys():
            with self.weights_as(trial.values):
                return got, self.oracle.case(trial.arguments, trial.answer).judged(got)
        return got, self.verdict(got, trial.arguments, candidate.alive, drawn=False)

    def _refuses(self, candidate: Remote, trial: cases.Trial, error: Exception) -> bool:
        """Handle an exception or lost process on unusual inputs; False if it rejects the candidate."""
        name = candidate.subject.name
        if trial.binding or facts.context_lost(error):
            self._accuse(candidate.subject, error, "error")
            return False
        line = str(error).partition("\n")[0]
        if trial.kind == UPDATED:
            self._folded.add(name)
            self.note(name, f"weights: an in-place update is refused: {line}")
        elif candidate.gone and trial.kind == cases.VALUES:
            # The other values are not tried then.
            self.fragile(name, trial.name, line)
        else:
            self.note(name, f"refuses {trial.name}: {line}")
        return True


def _changes(mine: Any, given: Any) -> str:
    """Number of elements changed in each mutated input."""
    found = []
    for (where, now), (_, before) in zip(tensors(mine, "input"), tensors(given, "input"), strict=True):
        if not same(now, before):
            count = int((now != before).sum()) if now.shape == before.shape else before.numel()
            found.append(f"{count} of {before.numel()} elements of {where}")
    return ", ".join(found)
