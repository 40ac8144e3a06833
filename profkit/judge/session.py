"""One job from start to end: load, check, count the work, time; or make the calls that ncu watches."""

from __future__ import annotations

import contextlib
import functools
import math
import random
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch

from profkit.guest import backward, facts, heap, settings
from profkit.guest.build import loading
from profkit.guest.clocks import timing
from profkit.guest.failure import classified
from profkit.guest.ranges import annotated
from profkit.guest.subject import Data, TimedCall, set_count
from profkit.guest.tensors import exchange, inputs, precision, staging, state, weights
from profkit.guest.tensors.compare import Left, Verdict, close
from profkit.guest.tensors.fresh import Stock
from profkit.guest.whole import CannotWriteError
from profkit.judge import cases, implementation, trials, work
from profkit.judge import guests as judge
from profkit.judge.company import Company
from profkit.judge.events import Events
from profkit.judge.implementation import Implementation, RemoteImplementation
from profkit.judge.precision import probe
from profkit.judge.precision.oracle import BORDERS, Oracle
from profkit.judge.remote import LostCandidateError, RemoteError
from profkit.judge.slopes import Slopes
from profkit.judge.timing import engine
from profkit.judge.timing.claims import RemoteCall
from profkit.judge.weight_checks import WeightChecks
from profkit.launch import landlock
from profkit.launch.protocol import PATIENT, Job, Subject
from profkit.torch_tools import perturb
from profkit.torch_tools.resident import Resident
from roofline.errors import RooflineError

_SPARED = 3
"""Unusual inputs that a candidate's process may end over before it is timed: each has all begin anew."""
_CONTROLS = 3
SHAPES = "shapes"
"""Folder beside timings.csv: a folder a shape of get_more_inputs, with the same files."""


_WRONG_GRADIENT = "wrong-gradient"
_SLOPES = 2
"""Times that a candidate's gradients are compared before they are timed."""


@dataclass(frozen=True)
class Plan:
    """What is timed: on which data, what is right for them with these weights alive, and how an answer is judged; `of`: a
    pass of backward.PASSES, whose gradients are by what is `wanted`, "" for the call itself.
    """

    draw: Callable[[], list[Any]]
    answer: Callable[[list[Any], frozenset[str]], Any]
    judged: Callable[[list[Any], Any, Any], Verdict]
    of: str = ""
    wanted: tuple[str, ...] = ()

    def called(self, model: Any) -> Any:
        """What is called of a model of this process."""
        return backward.Gradients(model, self.wanted, alone=self.of == backward.BACKWARD) if self.of else model


class Once:
    """Passes on what is told about an implementation, the first time it is told."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self._told: set[tuple[str, str]] = set()

    def send(self, kind: str, impl: str = "", **data: Any) -> None:
        said = impl, str(data.get("what", ""))
        if said not in self._told:
            self._told.add(said)
            self.events.send(kind, impl, **data)


_MOVED, _SCALED = "moved", "scaled"
"""How data that are drawn the same every time are made other ones."""


class LostContextError(BaseException):
    """The CUDA context is lost: nothing more can run in this process, and whoever passes over errors does not pass over this."""


def run(job: Job, events: Events) -> None:
    """Do the job. What is wrong with a candidate is an event; only what ends the process is raised."""
    try:
        Session(job, events).run()
    finally:
        if job.trials and job.seeds:
            events.send("seeds", seeds=job.seeds)
        loading.release_all()


class Session:
    """One job in this process: the reference, its candidates here or in processes of their own, and what is known."""

    reference: Implementation

    def __init__(self, job: Job, events: Events) -> None:
        self._job = job
        self.events = events
        self.device = facts.choose(job.device)
        self.live = weights.Weights()
        self._alive: frozenset[str] = frozenset()
        self.oracle = Oracle(None)
        self._state = state.State()
        self._afresh: Any = None
        self._spared = False
        self._varied = ""
        self._own: list[Any] | None = None
        self._drawn: Any = None
        self.built_with = 0
        self._once = Once(events)
        self._apart: list[str] = []
        self._company = Company(job.door, self.device, events)
        self._hosted: set[int | None] = set()
        self._bytes = 0
        self._weights = WeightChecks(self)

    def run(self) -> None:
        """See `run`."""
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
        if not self._job.again:
            self._work()
            self._own = None
        self._probe()
        sound = [candidate for candidate in candidates if self._check(candidate)]
        again = self._job.again
        sound = sound if again else self._hold(sound, cases.VALUES)
        if self._spared:
            # Nothing can be timed of who is gone: all begin anew, and these are not asked for that again.
            judge.let_go(candidates)
            self._company.leave()
            return
        judge.let_go(c for c in candidates if c not in sound)
        if self._afresh is not None:
            self._afresh.remove()
        sound = self._time([self.reference, *sound])[1:]
        if self._job.shapes and not again:
            sound = self._more_shapes(sound)
        if (self._job.backward or getattr(self.reference.module, "backward", False) is True) and not again:
            sound = self._backward(sound)
        asked = self._weights.follow([] if again else [one for one in sound if not one.gone])
        # What may bring a process down comes last, and only where there is one for each.
        apart = [c for c in asked if c.remote and not c.gone]
        left = self._hold(apart, cases.FORMS)
        self.forget([one for one in apart if one not in left])
        others = {file: timing.digest(Path(self._job.timings).parent / file) for file in self._apart}
        self.events.send("written", digest=timing.digest(Path(self._job.timings)), others=others)
        judge.let_go(candidates)
        self._company.leave()
        if self._job.ceilings and self.device.type == "cpu" and not again:
            self._ceilings()

    # Loading

    def _load(self) -> list[Implementation] | None:
        """The candidates that could be built; None when the reference could not."""
        job = self._job
        if job.mode == "judge" and (lacks := landlock.caveat()):
            self.events.send("doubt", **lacks)
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
        """What `build` gives; None (and an event) when it fails."""
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

    @contextlib.contextmanager
    def blame(self, subject: Subject, status: str) -> Iterator[list[str]]:
        """Turn an exception into an event about `subject`; the list is non-empty afterwards if there was one."""
        failed: list[str] = []
        try:
            yield failed
        except Exception as error:
            failed.append(status)
            self._accuse(subject, error, status)

    def _accuse(self, subject: Subject, error: Exception, status: str) -> None:
        """Say what `subject` did wrong; raise LostContextError when nothing can run after it."""
        if isinstance(error, CannotWriteError):
            raise error
        if isinstance(error, LostCandidateError):
            return
        if isinstance(error, RemoteError):
            error.report(subject, self.events, status)
            return
        traceback.print_exception(error, file=sys.stderr)
        found = classified(error, getattr(error, "status", status))
        if found.lost:
            # Who has a process of its own has lost the context of this one for nobody: a call of the reference has.
            judged = self._job.mode == "judge" and subject.role != "reference"
            whose = self.reference.subject if judged else subject
            self.events.send("corrupt", whose.name, reason=found.reason, tail=found.tail)
            raise LostContextError(found.reason) from error
        self.events.send("impl", subject.name, status=found.status, reason=found.reason, tail=found.tail)

    def refuse_lost(self, error: Exception) -> None:
        """Of an error that is passed over: raise LostContextError, said to be the reference's, when nothing can run after it."""
        if facts.context_lost(error):
            self._accuse(self.reference.subject, error, "error")

    # The reference

    def _fresh(self, seed: int, shape: int | None = None) -> list[Any]:
        """Inputs of this seed; shape: which of get_more_inputs, None for get_inputs."""
        drawn = [inputs.to_device(item, self.device) for item in self._draw(seed, shape)]
        if self._varied and shape is None:
            inputs.vary(drawn, seed, move=self._varied == _MOVED)
        return drawn

    def _draw(self, seed: int, shape: int | None) -> Sequence[Any]:
        """What the reference's module draws. Where that was the host's work alone, others may time beside the next time."""
        module, device = self.reference.module, self.device
        hosted = shape in self._hosted
        with self._company.apart() if hosted else contextlib.nullcontext():
            self._company.step_aside()
            before = facts.allocations(device)
            inputs.seed_all(seed)
            drawn: Sequence[Any] = module.get_inputs() if shape is None else module.get_more_inputs()[shape]
        if not hosted and facts.allocations(device) == before and not inputs.on_gpu(drawn):
            self._hosted.add(shape)
        return drawn

    def unseen(self, shape: int | None = None) -> list[Any]:
        """Inputs of a seed that nobody knows."""
        return self._fresh(judge.draw(1)[0], shape)

    def _mine(self) -> list[Any]:
        """Inputs that the reference alone is asked about, the same until it is known: drawing them may take longer."""
        if self._own is None:
            self._own = self.unseen()
        return self._own

    def _unlike(self, seed: int) -> int:
        """Another seed, which says nothing of this one or of those that follow it; the same again for a fixed seed."""
        return judge.draw(1)[0] if self._job.trials else random.Random(seed).getrandbits(31)

    def answer(self, arguments: list[Any], alive: frozenset[str]) -> Any:
        """The reference's answer with these of its weights as drawn and the others as constructed."""
        self._company.step_aside()
        self.put(alive)
        return self.reference.call(arguments)

    def put(self, alive: frozenset[str]) -> None:
        if alive != self._alive:
            weights.put(self.reference.model, self.live.mixed(alive))
            self._alive = alive

    def _answers(self) -> bool:
        """Whether the reference can be called at all; if not, no candidate is to blame."""
        events, reference, job = self.events, self.reference, self._job
        events.phase("first", reference.subject.name)
        began = self._company.clock()
        with self.blame(reference.subject, "error") as failed:
            arguments = self._fresh(job.seeds[0] if job.seeds else 0)
            output = reference.call(arguments)
            facts.settle(self.device)
            inputs.refuse_layouts(arguments, output)
            self._bytes = staging.size(exchange.describe(output)["value"], self.device)
            events.send("task", **precision.types(reference.model, arguments, output))
            events.send("inputs", tensors=inputs.described(arguments))
            least = PATIENT * (self._company.clock() - began)
            for seed, shape in self._rounds():
                if shape is not None:
                    events.phase("load", reference.subject.name, least=least)
                    reference.call(self._fresh(seed, shape))
                    facts.settle(self.device)
        return not failed

    def _vary(self) -> None:
        """Where every draw is the same, what was answered once is right ever after: make other data of each, as far as the
        reference's answer bears it. Where it bears none, that is a doubt. Another process has told what it found.
        """
        if "varied" in self._job.probe:
            self._varied = str(self._job.probe["varied"])
            return
        self.events.phase("work", self.reference.subject.name, factor=2.0)
        seeds = judge.draw(2)
        try:
            drawn = [self._fresh(seed) for seed in seeds]
            if not inputs.repeated(*drawn):
                self._own = drawn[0]
                return
            before = inputs.clone(self.reference.call(self._fresh(seeds[0])))
        except Exception as error:
            self._unknown("whether every draw is the same is not known", error)
            return
        for self._varied in (_MOVED, _SCALED):
            with contextlib.suppress(Exception):
                if weights.steady(before, self.reference.call(self._fresh(seeds[1]))):
                    return
        self._varied = ""
        self.events.send(
            "doubt",
            what="get_inputs() draws the same numbers every time, and the reference bears no others",
            how_much="an answer that is kept from call to call would not show",
            fix="draw inputs from torch's generator",
            code="inputs-fixed",
        )

    def _enliven(self) -> None:
        """Draw what is constant in the reference's weights anew; no more than a doubt on failure."""
        self.events.phase("work", self.reference.subject.name, factor=2.0)
        seeds = judge.draw(2)

        def ask() -> Any:
            arguments = inputs.clone(self._mine())
            inputs.seed_all(seeds[0])
            return inputs.clone(self.reference.call(arguments))

        try:
            self.live = weights.draw(self.reference.model, ask, seeds[1], self.reference.fixed)
            facts.settle(self.device)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self._doubt_weights(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
        if self.live.unsteady:
            self._doubt_weights("other values take the reference's answer out of its range")
        self._alive = frozenset(self.live.live)

    def _remember(self) -> None:
        """Find out what the reference keeps from call to call; where its answer tells, its calls begin with the same until
        they are timed. No more than a doubt on failure. Where another process has told that its answer does not, it is as
        if it kept nothing.
        """
        if self._job.probe.get("keeps") is False:
            return
        self.events.phase("work", self.reference.subject.name, factor=2.0)
        model, seed = self.reference.model, judge.draw(1)[0]
        try:
            self._state = state.changed(model, lambda: self.answer_at(seed, self._mine(), self._alive))
            facts.settle(self.device)
        except Exception as error:
            self._unknown("whether the reference keeps anything from call to call is not known", error)
        if self._state.tells:
            values = self._state.values
            self._afresh = model.register_forward_pre_hook(lambda asked, _: state.put(asked, values))

    def _doubt_weights(self, why: str) -> None:
        self.events.send(
            "doubt",
            what="weights that are constant as constructed were not drawn anew",
            how_much=why,
            fix="give them other values in the reference's constructor",
            code="weights-constant",
        )

    def _probe(self) -> None:
        """Measure the reference's precision and try trivial answers, on inputs of other seeds than the trials'; a caveat on failure."""
        reference = self.reference
        self.events.phase("work", reference.subject.name, factor=3.0)
        try:
            loading.use(reference.lock)
            if self._job.again:
                self._own = None
                reference.probe = probe.known(self._job.probe)
            else:
                reference.probe = replace(self._probed(reference), keeps=self._state.tells, varied=self._varied)
                reference.probe.report(self.events)
            facts.settle(self.device)
        except Exception as error:
            self._unknown("the precision of the reference, and which trivial answers would pass, are not known", error)
        self.oracle = Oracle(reference.model, reference.probe.precision, self._company.step_aside)
        self.oracle.any_dtype = bool(getattr(reference.module, "any_dtype", False))

    def _unknown(self, what: str, error: Exception) -> None:
        """Doubt what could not be found out, for this error."""
        self.refuse_lost(error)
        traceback.print_exc(file=sys.stderr)
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        self.events.send("doubt", what=what, how_much=why, fix="")

    def _probed(self, reference: Implementation) -> probe.Probe:
        pause = self._company.step_aside
        found = probe.probe(reference.model, self._fresh, judge.draw(2), pause, self.device)
        if not (found.passing or found.still) or found.random:
            return found
        self._drawn = self.ask_reference(self.unseen())
        oracle = Oracle(reference.model, found.precision, pause)
        return probe.told_apart(found, self._unusual(cases.VALUES), self._drawn, oracle)

    # Checking

    def _check(self, candidate: Implementation) -> bool:
        """Compare on every seed; the first failure ends it. True when the candidate may be timed."""
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
        """Whether it leaves what the reference does for the next call; a caveat where it has nothing of that name."""
        name, arguments, seed = candidate.subject.name, self.unseen(), judge.draw(1)[0]
        values = {one: value for one, value in self._state.values.items() if one in self._state.binding}
        got = candidate.left(inputs.clone(arguments), seed, values)
        self.put(candidate.alive)
        want = self.reference.left(inputs.clone(arguments), seed, values)
        state.put(self.reference.model, self._state.values)
        if lacks := sorted(set(want) - set(got)):
            self.events.send(
                "doubt",
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
        """The last verdict of the trials: the first that is not ok; None for an exception, which has been reported."""
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

    def _spare(self, name: str, what: str, told: str) -> None:
        """Have all begin anew, and this one, or everybody, not asked for that again."""
        self._spared = True
        self.events.send("spared", name, input=what, what=told[:300])

    def _trials(self, candidate: Implementation) -> trials.Trials:
        """The two as the trials call them: with the generators as they are at the call."""
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

    def _rounds(self) -> Iterator[tuple[int, int | None]]:
        """(seed, which of get_more_inputs) of every trial; None: get_inputs."""
        seeds = self._job.seeds
        yield from ((seed, None) for seed in seeds)
        if seeds and not self._job.again and hasattr(self.reference.module, "get_more_inputs"):
            inputs.seed_all(seeds[0])
            count = len(self.reference.module.get_more_inputs())
            yield from ((seeds[-1] + 1 + shape, shape) for shape in range(count))

    # Asking the reference

    def answer_at(self, seed: int, arguments: list[Any], alive: frozenset[str]) -> Any:
        """The reference's answer with the generators at this seed, to these inputs, which stay as they are."""
        inputs.seed_all(seed)
        if self._state.tells:
            state.put(self.reference.model, self._state.values)
        return inputs.clone(self.answer(inputs.clone(arguments), alive))

    def ask_reference(self, arguments: list[Any]) -> Any:
        return self.answer_at(0, arguments, frozenset(self.live.live))

    @contextlib.contextmanager
    def weights_as(self, values: Mapping[str, torch.Tensor]) -> Iterator[None]:
        """The reference with these weights for the block."""
        self.put(frozenset(self.live.live))
        now = self.reference.model.state_dict()
        before = {name: now[name].clone() for name in values}
        try:
            weights.put(self.reference.model, values)
            yield
        finally:
            weights.put(self.reference.model, before)

    def verdict(
        self, got: Any, arguments: list[Any], alive: Collection[str], seed: int = 0, *, drawn: bool = True
    ) -> Verdict:
        """The verdict on an answer to these inputs with these of the drawn weights alive."""
        want = self.answer_at(seed, arguments, frozenset(alive))
        if self.reference.probe.random:
            same = close(got, want, self.oracle.precision.required)
            return Verdict("ok" if same else "mismatch", "" if same else "another answer from the same seed")
        return self.oracle.case(arguments, want, drawn=drawn).judged(got)

    # Unusual inputs

    def _hold(self, sound: list[Implementation], wanted: tuple[str, ...]) -> list[Implementation]:
        """Ask for answers to unusual inputs; candidates that the declared task does not excuse go."""
        if not sound or self.reference.probe.random:
            return sound
        names = [candidate.subject.name for candidate in sound]
        self.events.phase("work", self.reference.subject.name, factor=2.0)
        for trial in self._unusual(wanted):
            for candidate in list(sound):
                if not (candidate.gone or self._bears(candidate, trial)):
                    sound = [one for one in sound if one is not candidate]
            self.events.phase("work", self.reference.subject.name, factor=2.0)
        self.events.send("properties", names=names, kinds=list(wanted))
        return sound

    def _unusual(self, wanted: tuple[str, ...]) -> Iterator[cases.Trial]:
        """Unusual inputs of these kinds, with the reference's answers."""
        module = self.reference.module
        return cases.trials(
            (self.unseen(), self.unseen()),
            self.ask_reference,
            wanted,
            allowed=cases.domain(module),
            layouts=bool(getattr(module, "any_layout", False)),
            holes=self.reference.probe.holes,
            clock=self._company.clock,
        )

    def _bears(self, candidate: Implementation, trial: cases.Trial) -> bool:
        """Return False if the candidate must be rejected."""
        name, timed = candidate.subject.name, trial.kind in cases.FORMS
        known = self._job.spared.get(name, {})
        if trial.name in known:
            self.note(name, f"{trial.name}: {known[trial.name]}")
            return True
        self.events.phase("check", name)
        candidate.forgive(timed or (not trial.binding and len(known) < _SPARED))
        try:
            got = candidate.plain(inputs.clone(trial.arguments), 0)
            if candidate.alive == self.live.live.keys():
                self.put(candidate.alive)
                verdict = self.oracle.case(trial.arguments, trial.answer).judged(got)
            else:
                verdict = self.verdict(got, trial.arguments, candidate.alive, drawn=False)
        except CannotWriteError:
            raise
        except Exception as error:
            return self._refuses(candidate, trial, error)
        finally:
            candidate.forgive(False)
        if verdict.status == "ok":
            return True
        with self.blame(candidate.subject, "error") as failed:
            usual = self.usual(candidate, candidate.alive)
        if failed:
            return False
        if usual.status != "ok":
            what = f"right in the trials, wrong in later calls on inputs of the same kind: {usual.what}"
            self.events.send("impl", name, status="stops-computing", reason=what)
        elif trial.binding:
            self.events.send("impl", name, status=verdict.status, reason=f"{trial.name}: {verdict.what}")
        elif given := probe.gives(trial, got, self.reference.probe, self._drawn):
            what = f"gives {given}, which is right for the inputs as they are drawn alone; wrong for {trial.name}"
            self.events.send("impl", name, status="mismatch", reason=what)
        else:
            tell = self.note if trial.kind in ("layout", "shape") else self.fragile
            tell(
                name,
                *((f"wrong for {trial.name}: {verdict.what}",) if tell == self.note else (trial.name, verdict.what)),
            )
            return True
        return False

    def _refuses(self, candidate: Implementation, trial: cases.Trial, error: Exception) -> bool:
        """A candidate that raised, or whose process ended, on unusual inputs; False if it must be rejected."""
        name = candidate.subject.name
        if (trial.binding and trial.kind != "layout") or facts.context_lost(error):
            self._accuse(candidate.subject, error, "error")
            return False
        line = str(error).partition("\n")[0]
        there = isinstance(error, (RemoteError, LostCandidateError))
        line = line if there else f"{type(error).__name__}: {line}"
        self.note(name, f"refuses {trial.name}: {line}")
        known = self._job.spared.get(name, {})
        if candidate.gone and trial.kind not in cases.FORMS and len(known) < _SPARED:
            self._spare(name, trial.name, line)
        return True

    def usual(self, candidate: Implementation, alive: Collection[str]) -> Verdict:
        """Whether a candidate that was wrong on unusual inputs is right on usual ones now: what it keeps may be stale."""
        last = Verdict("ok")
        for _ in range(_CONTROLS):
            arguments = self.unseen()
            last = self.verdict(candidate.plain(inputs.clone(arguments), 0), arguments, alive)
            if last.status != "ok":
                break
        return last

    def fragile(self, name: str, where: str, what: str) -> None:
        """A silently wrong answer that the task does not exclude: a condition."""
        self.events.send("fragile", name, input=where, what=what[:300])

    def note(self, name: str, what: str) -> None:
        """What a reader of the report may want to know: nothing that is held against the candidate."""
        self.events.send("note", name, what=what[:300])

    # Work and time

    def _work(self) -> None:
        """Report the declared and the modelled work; failing to model it is a doubt, not an error."""
        events, reference = self.events, self.reference
        events.phase("work", "")
        try:
            said = work.declared(reference.module)
            if said is not None:
                events.send("work", **said)
            cc = facts.device_facts(self.device).get("cc", "")
            events.send("work", **work.modelled(reference.model, self._mine(), cc))
            facts.settle(self.device)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            events.send(
                "doubt",
                what="the reference's work could not be modelled",
                how_much=f"{type(error).__name__}: {error}",
                fix="declare it: def get_work(): return {'flops': ..., 'bytes': ...}",
            )

    def _more_shapes(self, sound: list[Implementation]) -> list[Implementation]:
        """Time all of them on every shape of get_more_inputs(), each into a file of its own; who is wrong there goes."""
        for shape in [one for _, one in self._rounds() if one is not None]:
            if not sound:
                break
            sound, file = self._time_apart(sound, f"{SHAPES}/{shape}", self._plan(shape))
            self.events.send("shape", inputs=inputs.described(self.unseen(shape)), file=file)
        return sound

    def _time_apart(self, sound: list[Implementation], where: str, plan: Plan) -> tuple[list[Implementation], str]:
        """(those that are still sound, the file beside timings.csv): timed once more, into a folder there."""
        main = Path(self._job.timings)
        file = f"{where}/{main.name}"
        (main.parent / file).parent.mkdir(parents=True, exist_ok=True)
        job = msgspec.structs.replace(self._job, timings=str(main.parent / file), energy=False)
        left = self._time([self.reference, *sound], job, plan)[1:]
        self.forget([one for one in sound if one not in left])
        self._apart.append(file)
        return left, file

    def forget(self, wrong: list[Implementation]) -> None:
        """Take the samples of those out that were found wrong after they had been timed."""
        main = Path(self._job.timings)
        for one in wrong:
            for written in (main, *(main.parent / other for other in self._apart)):
                timing.remove(one.subject.name, written)

    # Gradients

    def _backward(self, sound: list[Implementation]) -> list[Implementation]:
        """Compare the gradients and time them; who has others goes."""
        slopes = self._slopes()
        if slopes is None or not sound:
            return sound
        named = {one.subject.name: self._wanted(one, slopes) for one in sound}
        left = [one for one in sound if self._slopes_right(one, slopes, named[one.subject.name])]
        judge.let_go(one for one in sound if one not in left)
        self.forget([one for one in sound if one not in left])
        wanted = backward.shared(slopes.wanted, set.intersection(*map(set, named.values())))

        def answer(given: list[Any], alive: frozenset[str]) -> Any:
            self.put(alive)
            found = slopes.answer(given, wanted)
            self.put(frozenset(self.live.live))
            return found

        def judged(given: list[Any], want: Any, got: Any) -> Verdict:
            return slopes.judged(got, given, wanted, want)

        for name in backward.PASSES if wanted else ():
            if left:
                draw = functools.partial(self._slope_data, slopes)
                plan = Plan(draw, answer, judged, name, wanted)
                left, file = self._time_apart(left, name, plan)
                self.events.send("pass", name=name, file=file, wanted=list(wanted))
        return left

    def _slopes(self) -> Slopes | None:
        """The reference's gradients; None, and a doubt, where it has none to compare with."""
        self.events.phase("work", self.reference.subject.name, factor=2.0)
        self.put(frozenset(self.live.live))
        why, found = "the reference draws random numbers or changes its inputs", None
        try:
            if self.reference.probe.repeatable:
                found = Slopes(self.reference.model, self.unseen(), self.reference.probe.precision)
            facts.settle(self.device)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if found is None:
            what, fix = "gradients were neither compared nor timed", "give a reference that can be differentiated"
            self.events.send("doubt", what=what, how_much=why, fix=fix, code="no-gradients")
            return None
        for doubt in found.caveats():
            self.events.send("doubt", **doubt)
        return found

    def _slope_data(self, slopes: Slopes) -> list[Any]:
        return slopes.data(self.unseen())

    def _wanted(self, candidate: Implementation, slopes: Slopes) -> tuple[str, ...]:
        """What the candidate's gradients can be asked by: a parameter it has under another name cannot be."""
        own: dict[str, list[int]] = {}
        with self.blame(candidate.subject, "error"):
            own = candidate.parameters()
        theirs = {n for n, one in backward.parameters(self.reference.model).items() if own.get(n) == list(one.shape)}
        wanted = backward.shared(slopes.wanted, theirs)
        if missing := [name for name in slopes.wanted if name not in wanted]:
            self._weights.unmatched(
                candidate, f"its gradients by {', '.join(missing)} were not compared: none of that name"
            )
        return wanted

    def _slopes_right(self, candidate: Implementation, slopes: Slopes, wanted: tuple[str, ...]) -> bool:
        name, what = candidate.subject.name, ""
        with self.blame(candidate.subject, _WRONG_GRADIENT) as failed:
            for _ in range(_SLOPES if wanted else 0):
                self.events.phase("first", name)
                given = self._slope_data(slopes)
                got = candidate.gradients(inputs.clone(given), wanted)
                self.put(candidate.alive)
                what = what or slopes.judged(got, given, wanted).what
                facts.settle(self.device)
        if what:
            self.events.send("impl", name, status=_WRONG_GRADIENT, reason=what)
        return not (failed or what)

    def _time(
        self, sound: list[Implementation], job: Job | None = None, plan: Plan | None = None
    ) -> list[Implementation]:
        """Time all of them side by side; one that fails is left out and the others are timed afresh. job, plan: where
        the samples go, and what is called, for other calls than those of get_inputs.
        """
        current: list[Subject] = []
        switches = settings.read()

        def turn(name: str) -> None:
            # What one of this process switches in its timed calls is not to be on in another's.
            if current and not any(one.remote for one in sound):
                settings.keep(switches, current[0].name, self._once, called=True)
            current[:] = [next(i.subject for i in sound if i.subject.name == name)]
            self.events.phase("time", name)

        while sound:
            current.clear()
            try:
                calls = self._calls(sound, turn, plan or self._plan())
                engine.ready(job or self._job, calls, self.device)
                with self._company.alone(), annotated(self._job.sample, "time"):
                    timed = engine.time_all(job or self._job, calls, self.device, self.events, turn)
                if job is None:
                    self.events.send("timing", **timed)
                break
            except Exception as error:
                if not current:
                    raise
                # A process that fails says whose it is; it may be asked out of its turn.
                told = getattr(error, "impl", current[0].name)
                culprit = next((i.subject for i in sound if i.subject.name == told), current[0])
                self._accuse(culprit, error, "error")
                judge.let_go(i for i in sound if i.subject is culprit)
                sound = [i for i in sound if i.subject is not culprit]
        return sound

    def _plan(self, shape: int | None = None) -> Plan:
        def judged(given: list[Any], want: Any, got: Any) -> Verdict:
            return self.oracle.case(given, want, drawn=shape is None).judged(got)

        return Plan(lambda: self.unseen(shape), self._judged, judged)

    def _calls(self, sound: list[Implementation], turn: Callable[[str], None], plan: Plan) -> dict[str, Any]:
        """Every implementation with input sets of its own, mixed from the same draws; the reference answers for the others when
        they are compared.
        """
        probe = self.reference.probe

        def usable(drawn: list[Any], mixed: list[Any]) -> bool:
            try:
                before = inputs.clone(plan.answer(drawn, frozenset(self.live.live)))
                return weights.steady(before, plan.answer(mixed, frozenset(self.live.live)))
            except Exception as error:
                self.refuse_lost(error)
                traceback.print_exc(file=sys.stderr)
                return False

        stock = Stock(plan.draw, usable)
        count = set_count(stock.bytes, len(sound))
        self.put(frozenset(self.live.live))
        calls: dict[str, Any] = {}
        for one in sound:
            turn(one.subject.name)
            loading.use(one.lock)
            data, own = Data(stock, count), None if one is self.reference else one.own
            compared = not probe.random and one is not self.reference
            answer = (lambda given, alive=one.alive: plan.answer(given, alive)) if compared else None
            judged = functools.partial(_as_exact, plan.judged, one.bits if not plan.of else math.inf)
            if isinstance(one, RemoteImplementation):
                call: Any = RemoteCall(one.model, data, answer, judged, plan.of, plan.wanted, not probe.repeatable)
            else:
                afresh = functools.partial(state.put, one.model, one.kept)
                call = TimedCall(plan.called(one.model), data, answer, judged, not probe.repeatable, afresh, own)
            calls[one.subject.name] = call
        return calls

    def _judged(self, given: list[Any], alive: frozenset[str]) -> Any:
        """What is right for timed data, which stays as it is."""
        if self._state.tells:
            state.put(self.reference.model, self._state.values)
        answer = self.answer(inputs.clone(given), alive)
        self.put(frozenset(self.live.live))
        return answer

    # Other modes

    def _annotated_calls(self, implementations: list[Implementation]) -> None:
        """One warm call, then one call each inside sample / implementation / counters: what ncu captures."""
        job, arguments = self._job, self._fresh(self._job.seeds[-1] if self._job.seeds else 0)
        for one in implementations:
            name = one.subject.name
            self.events.phase("build", name)
            with self.blame(one.subject, "error"):
                mine = inputs.clone(arguments)
                one.call(mine)
                facts.settle(self.device)
                self.events.phase("count", name)
                with annotated(job.sample, name, "counters"):
                    one.model(*mine)
                    facts.settle(self.device)
                self.events.send("impl", name, status="counted")

    def _perturb(self, implementations: list[Implementation]) -> None:
        """Time each under other conditions; with half of the data last, which some may not bear."""
        arguments, resident = self._fresh(self._job.seeds[-1] if self._job.seeds else 0), self._resident()
        for one in implementations:
            self.events.phase("first", one.subject.name)
            with self.blame(one.subject, "error"):
                mine = inputs.clone(arguments)
                one.call(mine)
                facts.settle(self.device)
                self.events.phase("time", one.subject.name, factor=2.0)
                calls = {"usual": functools.partial(one.model, *mine)}
                seconds = perturb.conditions(calls, self.device, resident, self._job.budget / 2)
                self.events.send("perturbed", one.subject.name, seconds=seconds)
        half, left = self._half(arguments)
        for one in implementations if left else ():
            self.events.phase("first", one.subject.name)
            with self.blame(one.subject, "error"):
                self._with_half(one, half, left)

    def _with_half(self, one: Implementation, half: list[Any], left: dict[str, float]) -> None:
        """Time it with half of the data, if it answers as the reference does."""
        want = inputs.clone(self.reference.call(inputs.clone(half)))
        less = inputs.clone(half)
        if not close(one.call(less), want, BORDERS["bf16"]):
            return
        self.events.phase("time", one.subject.name, factor=2.0)
        calls = {"half_size": functools.partial(one.model, *less)}
        seconds = perturb.conditions(calls, self.device, None, self._job.budget / 2)
        self.events.send("perturbed", one.subject.name, seconds=seconds, left=left)

    def _resident(self) -> Resident | None:
        """What takes up room on a GPU; None, and a doubt, where it cannot be built."""
        if self.device.type != "cuda":
            return None
        try:
            return Resident(self.device)
        except RooflineError as error:
            what = "half of the SMs and half of every SM were not tried"
            self.events.send("doubt", what=what, how_much=str(error), fix=error.fix)
            return None

    def _half(self, arguments: list[Any]) -> tuple[list[Any], dict[str, float]]:
        """Half of the data as the reference takes it, and what it leaves of the FLOP and of the bytes; ([], {}) without."""
        cc = facts.device_facts(self.device).get("cc", "")
        whole = work.modelled(self.reference.model, inputs.clone(arguments), cc)
        found: tuple[list[Any], dict[str, float]] = ([], {})
        for half in perturb.halves(arguments):
            try:
                part = work.modelled(self.reference.model, inputs.clone(half), cc)
                facts.settle(self.device)
            except Exception:
                traceback.print_exc(file=sys.stderr)
                continue
            flops = [sum(one["flops"].values()) for one in (part, whole)]
            left = {"bytes": part["bytes"] / whole["bytes"]}
            left |= {"flops": flops[0] / flops[1]} if flops[1] else {}
            if not found[1] or max(left.values()) < max(found[1].values()):
                found = half, left
        return found

    def _single_calls(self, candidates: list[Implementation]) -> None:
        """One call of each candidate, on inputs that come from the host: what compute-sanitizer watches."""
        for candidate in candidates:
            arguments = self._fresh(self._job.seeds[-1] if self._job.seeds else 0)
            self.events.phase("sanitize", candidate.subject.name)
            with self.blame(candidate.subject, "error"):
                candidate.call(arguments)
                facts.settle(self.device)
                self.events.send("impl", candidate.subject.name, status="counted")

    def _ceilings(self) -> None:
        """What this CPU can do, measured in the same process with the same threads."""
        from roofline.measure import measure_cpu

        self.events.phase("ceilings")
        try:
            self.events.send("ceilings", ceilings=msgspec.to_builtins(measure_cpu()))
        except (RuntimeError, MemoryError) as error:
            what = "the ceilings of this CPU could not be measured"
            self.events.send("doubt", what=what, how_much=str(error), fix="")


_LESS = 4.0
"""Bits that a timed answer may have less than those of the trials."""


def _as_exact(
    judged: Callable[[list[Any], Any, Any], Verdict], bits: float, given: list[Any], want: Any, got: Any
) -> Verdict:
    """The verdict on a timed answer, which has to be about as exact as those of the trials were."""
    verdict = judged(given, want, got)
    if verdict.status == "ok" and verdict.bits is not None and verdict.bits < min(bits, BORDERS["fp32"]) - _LESS:
        return Verdict(
            "mismatch", f"right to {verdict.bits:.1f} bits only, {bits:.1f} in the trials", bits=verdict.bits
        )
    return verdict


__all__ = ["LostContextError", "Session", "run"]
