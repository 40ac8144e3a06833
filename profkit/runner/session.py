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

from profkit.launch import landlock
from profkit.launch.protocol import PATIENT, Job, Subject
from profkit.runner import (
    backward,
    engine,
    exchange,
    facts,
    heap,
    implementation,
    inputs,
    judge,
    jumps,
    loading,
    perturb,
    precision,
    prober,
    properties,
    reach,
    settings,
    staging,
    state,
    timing,
    trials,
    weights,
    work,
)
from profkit.runner.check import Verdict, coded, compare
from profkit.runner.claims import RemoteCall
from profkit.runner.company import Company
from profkit.runner.events import Events
from profkit.runner.failure import classified
from profkit.runner.fresh import Stock
from profkit.runner.implementation import Implementation, RemoteImplementation
from profkit.runner.ranges import annotated
from profkit.runner.remote import LostCandidateError, RemoteError
from profkit.runner.resident import Resident
from profkit.runner.subject import ChangedResultError, Data, TimedCall, set_count
from profkit.runner.whole import CannotWriteError
from roofline.errors import RooflineError

_MOST_ASKED = 32
"""Weights of which it is found out one by one whether a candidate ignores them."""


_MOST_NAMED = 4
_PREPARED, _NEARER = 24, 4.0
"""Weights of which it is looked for who goes on with old ones, at most: of each the reference is asked once, or several times.
And times by which an answer is nearer to the one with these than to one with others of their size."""
_SPARED = 3
"""Unusual inputs that a candidate's process may end over before it is timed: each has all begin anew."""
_KEPT = 1 << 30
"""Bytes of answers with other weights that are kept for the next candidate."""
_LOUDEST = 1e4
"""Weights that hardly count are made no larger than this: half precision has room for them."""
_CONTROLS = 3
_SIZES, _GIVEN = (2.0, 3.0), 256.0
"""Times by which weights are larger than as they are constructed, and tables where all inputs are whole numbers."""
SHAPES = "shapes"
"""Folder beside timings.csv: a folder a shape of get_more_inputs, with the same files."""


_WRONG_GRADIENT = "wrong-gradient"
_SLOPES = 2
"""Times that a candidate's gradients are compared before they are timed."""


@dataclass(frozen=True)
class Plan:
    """What is timed: on which data, what is right for them with these weights alive, and to which tolerances; `of`: a
    pass of backward.PASSES, whose gradients are by what is `wanted`, "" for the call itself.
    """

    draw: Callable[[], list[Any]]
    answer: Callable[[list[Any], frozenset[str]], Any]
    tolerances: Mapping[str, float]
    of: str = ""
    wanted: tuple[str, ...] = ()

    def called(self, model: Any) -> Any:
        """What is called of a model of this process."""
        return backward.Gradients(model, self.wanted, alone=self.of == backward.BACKWARD) if self.of else model


@dataclass(frozen=True)
class Memory:
    """Weights unlike the constructed ones, by name, and what they are `like`; inputs, the reference's answer to them, and what finds the
    tolerances that hold there (None: none do). binding: whether to be wrong there is to be wrong.
    """

    like: str
    binding: bool
    values: dict[str, torch.Tensor]
    arguments: list[Any]
    answer: Any
    room: Callable[[], Mapping[str, float] | None]


class Once:
    """Passes on what is told about an implementation, the first time it is told."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._told: set[tuple[str, str]] = set()

    def send(self, kind: str, impl: str = "", **data: Any) -> None:
        said = impl, str(data.get("what", ""))
        if said not in self._told:
            self._told.add(said)
            self._events.send(kind, impl, **data)


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
        self._events = events
        self._device = facts.choose(job.device)
        self._live = weights.Weights()
        self._alive: frozenset[str] = frozenset()
        self._state = state.State()
        self._afresh: Any = None
        self._memories: list[Memory] | None = None
        self._spared = False
        self._varied = ""
        self._own: list[Any] | None = None
        self._drawn: Any = None
        self._built_with = 0
        self._once = Once(events)
        self._apart: list[str] = []
        self._company = Company(job.door, self._device, events)
        self._hosted: set[int | None] = set()
        self._bytes = 0

    def run(self) -> None:
        """See `run`."""
        self._events.send("facts", device=facts.device_facts(self._device), versions=facts.versions())
        torch.set_grad_enabled(False)
        if self._device.type == "cuda":
            loading.one_architecture(self._device)
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
        sound = sound if again else self._hold(sound, properties.VALUES)
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
        asked = self._outlive([] if again else [one for one in sound if not one.gone])
        # What may bring a process down comes last, and only where there is one for each.
        apart = [c for c in asked if c.remote and not c.gone]
        left = self._hold(apart, properties.FORMS)
        self._forget([one for one in apart if one not in left])
        others = {file: timing.digest(Path(self._job.timings).parent / file) for file in self._apart}
        self._events.send("written", digest=timing.digest(Path(self._job.timings)), others=others)
        judge.let_go(candidates)
        self._company.leave()
        if self._job.ceilings and self._device.type == "cpu" and not again:
            self._ceilings()

    # Loading

    def _load(self) -> list[Implementation] | None:
        """The candidates that could be built; None when the reference could not."""
        job = self._job
        if job.mode == "judge" and (lacks := landlock.caveat()):
            self._events.send("doubt", **lacks)
        remotes = judge.loaded(job, self._device, self._events, self._company) if job.mode == "judge" else []
        self._company.join()
        job.seeds = job.seeds or judge.draw(job.trials)
        seed = self._built_with = self._unlike(job.seeds[0] if job.seeds else 0)
        subject = next(subject for subject in job.subjects if subject.role == "reference")
        first = self._built(subject, lambda: implementation.reference(job, subject, seed, self._device))
        if first is None:
            return None
        self.reference = first
        self._events.send("allowed", precisions=[str(one) for one in getattr(first.module, "allowed_precisions", ())])
        if job.mode == "judge":
            return judge.build(remotes, first, seed, self._events)
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
        return implementation.candidate(self._job, subject, self.reference, seed, self._device)

    def _built(self, subject: Subject, build: Callable[[], Implementation]) -> Implementation | None:
        """What `build` gives; None (and an event) when it fails."""
        self._events.phase("load" if subject.role == "reference" else "build", subject.name)
        began, switches = time.perf_counter(), settings.read()
        built = None
        with self._blame(subject, "load-error"):
            built = build()
        if subject.role != "reference":
            settings.keep(switches, subject.name, self._events)
        if built is not None:
            self._events.send("impl", subject.name, status="loaded", build_seconds=time.perf_counter() - began)
        return built

    @contextlib.contextmanager
    def _blame(self, subject: Subject, status: str) -> Iterator[list[str]]:
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
            error.report(subject, self._events, status)
            return
        traceback.print_exception(error, file=sys.stderr)
        found = classified(error, getattr(error, "status", status))
        if found.lost:
            # Who has a process of its own has lost the context of this one for nobody: a call of the reference has.
            judged = self._job.mode == "judge" and subject.role != "reference"
            whose = self.reference.subject if judged else subject
            self._events.send("corrupt", whose.name, reason=found.reason, tail=found.tail)
            raise LostContextError(found.reason) from error
        self._events.send("impl", subject.name, status=found.status, reason=found.reason, tail=found.tail)

    def _refuse_lost(self, error: Exception) -> None:
        """Of an error that is passed over: raise LostContextError, said to be the reference's, when nothing can run after it."""
        if facts.context_lost(error):
            self._accuse(self.reference.subject, error, "error")

    # The reference

    def _fresh(self, seed: int, shape: int | None = None) -> list[Any]:
        """Inputs of this seed; shape: which of get_more_inputs, None for get_inputs."""
        drawn = [inputs.to_device(item, self._device) for item in self._draw(seed, shape)]
        if self._varied and shape is None:
            inputs.vary(drawn, seed, move=self._varied == _MOVED)
        return drawn

    def _draw(self, seed: int, shape: int | None) -> Sequence[Any]:
        """What the reference's module draws. Where that was the host's work alone, others may time beside the next time."""
        module, device = self.reference.module, self._device
        hosted = shape in self._hosted
        with self._company.apart() if hosted else contextlib.nullcontext():
            self._company.step_aside()
            before = facts.allocations(device)
            inputs.seed_all(seed)
            drawn: Sequence[Any] = module.get_inputs() if shape is None else module.get_more_inputs()[shape]
        if not hosted and facts.allocations(device) == before and not inputs.on_gpu(drawn):
            self._hosted.add(shape)
        return drawn

    def _unseen(self, shape: int | None = None) -> list[Any]:
        """Inputs of a seed that nobody knows."""
        return self._fresh(judge.draw(1)[0], shape)

    def _mine(self) -> list[Any]:
        """Inputs that the reference alone is asked about, the same until it is known: drawing them may take longer."""
        if self._own is None:
            self._own = self._unseen()
        return self._own

    def _unlike(self, seed: int) -> int:
        """Another seed, which says nothing of this one or of those that follow it; the same again for a fixed seed."""
        return judge.draw(1)[0] if self._job.trials else random.Random(seed).getrandbits(31)

    def _answer(self, arguments: list[Any], alive: frozenset[str]) -> Any:
        """The reference's answer with these of its weights as drawn and the others as constructed."""
        self._company.step_aside()
        self._put(alive)
        return self.reference.call(arguments)

    def _put(self, alive: frozenset[str]) -> None:
        if alive != self._alive:
            weights.put(self.reference.model, self._live.mixed(alive))
            self._alive = alive

    def _answers(self) -> bool:
        """Whether the reference can be called at all; if not, no candidate is to blame."""
        events, reference, job = self._events, self.reference, self._job
        events.phase("first", reference.subject.name)
        began = self._company.clock()
        with self._blame(reference.subject, "error") as failed:
            arguments = self._fresh(job.seeds[0] if job.seeds else 0)
            output = reference.call(arguments)
            facts.settle(self._device)
            inputs.refuse_layouts(arguments, output)
            self._bytes = staging.size(exchange.describe(output)["value"], self._device)
            events.send("task", **precision.types(reference.model, arguments, output))
            events.send("inputs", tensors=inputs.described(arguments))
            least = PATIENT * (self._company.clock() - began)
            for seed, shape in self._rounds():
                if shape is not None:
                    events.phase("load", reference.subject.name, least=least)
                    reference.call(self._fresh(seed, shape))
                    facts.settle(self._device)
        return not failed

    def _vary(self) -> None:
        """Where every draw is the same, what was answered once is right ever after: make other data of each, as far as the
        reference's answer bears it. Where it bears none, that is a doubt. Another process has told what it found.
        """
        if "varied" in self._job.probe:
            self._varied = str(self._job.probe["varied"])
            return
        self._events.phase("work", self.reference.subject.name, factor=2.0)
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
        self._events.send(
            "doubt",
            what="get_inputs() draws the same numbers every time, and the reference bears no others",
            how_much="an answer that is kept from call to call would not show",
            fix="draw inputs from torch's generator",
            code="inputs-fixed",
        )

    def _enliven(self) -> None:
        """Draw what is constant in the reference's weights anew; no more than a doubt on failure."""
        self._events.phase("work", self.reference.subject.name, factor=2.0)
        seeds = judge.draw(2)

        def ask() -> Any:
            arguments = inputs.clone(self._mine())
            inputs.seed_all(seeds[0])
            return inputs.clone(self.reference.call(arguments))

        try:
            self._live = weights.draw(self.reference.model, ask, seeds[1], self.reference.fixed)
            facts.settle(self._device)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self._doubt_weights(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
        if self._live.unsteady:
            self._doubt_weights("other values take the reference's answer out of its range")
        self._alive = frozenset(self._live.live)

    def _remember(self) -> None:
        """Find out what the reference keeps from call to call; where its answer tells, its calls begin with the same until
        they are timed. No more than a doubt on failure. Where another process has told that its answer does not, it is as
        if it kept nothing.
        """
        if self._job.probe.get("keeps") is False:
            return
        self._events.phase("work", self.reference.subject.name, factor=2.0)
        model, seed = self.reference.model, judge.draw(1)[0]
        try:
            self._state = state.changed(model, lambda: self._answer_at(seed, self._mine(), self._alive))
            facts.settle(self._device)
        except Exception as error:
            self._unknown("whether the reference keeps anything from call to call is not known", error)
        if self._state.tells:
            values = self._state.values
            self._afresh = model.register_forward_pre_hook(lambda asked, _: state.put(asked, values))

    def _doubt_weights(self, why: str) -> None:
        self._events.send(
            "doubt",
            what="weights that are constant as constructed were not drawn anew",
            how_much=why,
            fix="give them other values in the reference's constructor",
            code="weights-constant",
        )

    def _probe(self) -> None:
        """Find out what passes by accident, on inputs of other seeds than the trials'; no more than a doubt on failure."""
        reference = self.reference
        self._events.phase("work", reference.subject.name, factor=2.0)
        try:
            loading.use(reference.lock)
            if self._job.again:
                self._own = None
                reference.probe = prober.known(self._job.probe)
            else:
                reference.probe = replace(self._probed(reference), keeps=self._state.tells, varied=self._varied)
                reference.probe.report(self._events)
            facts.settle(self._device)
        except Exception as error:
            self._unknown("it is not known which trivial answers would pass", error)
        reference.probe.tolerances.any_dtype = bool(getattr(reference.module, "any_dtype", False))

    def _unknown(self, what: str, error: Exception) -> None:
        """Doubt what could not be found out, for this error."""
        self._refuse_lost(error)
        traceback.print_exc(file=sys.stderr)
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        self._events.send("doubt", what=what, how_much=why, fix="")

    def _probed(self, reference: Implementation) -> prober.Probe:
        found = prober.probe(reference.model, self._fresh, judge.draw(2), self._company.step_aside)
        if not (found.passing or found.still) or found.random:
            return found
        self._drawn = self._ask_reference(self._unseen())
        return prober.told_apart(found, self._unusual(properties.VALUES), self._drawn)

    # Checking

    def _check(self, candidate: Implementation) -> bool:
        """Compare on every seed; the first failure ends it. True when the candidate may be timed."""
        name = candidate.subject.name
        with self._blame(candidate.subject, "error") as failed:
            self._give_weights(candidate)
            if self._state.tells:
                candidate.keep(self._state.values)
        if failed:
            return False
        verdict = self._compared(candidate)
        if verdict is not None and verdict.status in ("mismatch", "nan") and candidate.alive:
            with self._blame(candidate.subject, "error") as failed:
                verdict = self._about_weights(candidate, verdict)
            if failed:
                return False
        if verdict is not None and verdict.status == "ok" and self._state.binding:
            with self._blame(candidate.subject, "error") as failed:
                verdict = self._leaves(candidate)
            if failed:
                return False
        if verdict is not None:
            self._events.send("impl", name, status=verdict.status, reason=verdict.what)
        return verdict is not None and verdict.status == "ok"

    def _leaves(self, candidate: Implementation) -> Verdict:
        """Whether it leaves what the reference does for the next call; a doubt where it has nothing of that name."""
        name, arguments, seed = candidate.subject.name, self._unseen(), judge.draw(1)[0]
        values = {one: value for one, value in self._state.values.items() if one in self._state.binding}
        got = candidate.left(inputs.clone(arguments), seed, values)
        self._put(candidate.alive)
        want = self.reference.left(inputs.clone(arguments), seed, values)
        state.put(self.reference.model, self._state.values)
        if lacks := sorted(set(want) - set(got)):
            self._events.send(
                "doubt",
                name,
                what=f"state: whether {name} keeps what the reference keeps from call to call is not known",
                how_much=f"it has nothing of the name of {', '.join(lacks[:_MOST_NAMED])}",
                fix="name what it keeps as the reference does",
                code="state-unfollowed",
            )
        both = sorted(set(want) & set(got))
        probe = self.reference.probe
        mine, theirs, before = ({one: held[one] for one in both} for held in (got, want, values))
        exact = None if probe.random else functools.partial(prober.kept, self.reference.model, arguments, both)
        off = trials.left(mine, theirs, before, exact, probe.tolerances)
        return Verdict("mismatch" if off else "ok", off)

    def _compared(self, candidate: Implementation) -> Verdict | None:
        """The last verdict of the trials: the first that is not ok; None for an exception, which has been reported."""
        name = candidate.subject.name
        asked = self._trials(candidate)
        least, verdict = 0.0, Verdict("ok")
        for number, (seed, shape) in enumerate(self._rounds()):
            # The first call is a phase of its own: something may still be compiled in it (Triton).
            self._events.phase("check" if number else "first", name, least=least)
            began = self._company.clock()
            with self._blame(candidate.subject, "error") as failed:
                arguments = self._fresh(seed, shape)
                verdict = asked.on(arguments, self._unlike(seed))
                facts.settle(self._device)
            if failed:
                return None
            least = max(least, PATIENT * (self._company.clock() - began))
            if verdict.what and shape is not None:
                verdict = replace(verdict, what=f"get_more_inputs()[{shape}]: {verdict.what}")
            self._events.send("check", name, seed=seed, **asdict(verdict))
            if verdict.status != "ok":
                return verdict
        return verdict

    def _spare(self, name: str, what: str, told: str) -> None:
        """Have all begin anew, and this one, or everybody, not asked for that again."""
        self._spared = True
        self._events.send("spared", name, input=what, what=told[:300])

    def _trials(self, candidate: Implementation) -> trials.Trials:
        """The two as the trials call them: with the generators as they are at the call."""
        if isinstance(candidate, RemoteImplementation):
            candidate.model.expected = self._bytes

        def ask(arguments: list[Any]) -> Any:
            switches = settings.read()
            output = candidate.plain(arguments, torch.initial_seed())
            facts.settle(self._device)
            settings.keep(switches, candidate.subject.name, self._once, called=True)
            return output

        exact = functools.partial(prober.left, self.reference.model)
        probe = self.reference.probe
        return trials.Trials(ask, lambda arguments: self._answer(arguments, candidate.alive), probe, exact)

    def _rounds(self) -> Iterator[tuple[int, int | None]]:
        """(seed, which of get_more_inputs) of every trial; None: get_inputs."""
        seeds = self._job.seeds
        yield from ((seed, None) for seed in seeds)
        if seeds and not self._job.again and hasattr(self.reference.module, "get_more_inputs"):
            inputs.seed_all(seeds[0])
            count = len(self.reference.module.get_more_inputs())
            yield from ((seeds[-1] + 1 + shape, shape) for shape in range(count))

    # Weights

    def _give_weights(self, candidate: Implementation) -> None:
        """Give the candidate the drawn weights. Those that cannot be found in it stay as constructed on both sides."""
        match, live = candidate.match, self._live.live
        unknown = frozenset(name for name in match.missing if name in live and name not in match.bare)
        candidate.alive = frozenset(live) - unknown
        if unknown and self._matters(unknown):
            if self._born(candidate):
                return
            self._doubt_match(candidate, f"no counterpart for {self._live.named(sorted(unknown))}")
        if candidate.alive:
            candidate.take(self._live.mixed(candidate.alive))

    def _matters(self, names: frozenset[str]) -> bool:
        """Whether the reference's answer depends on these weights."""
        arguments = self._unseen()
        without = inputs.clone(self._answer(inputs.clone(arguments), frozenset()))
        return compare(self._answer(arguments, names), without, self.reference.probe.tolerances).status != "ok"

    def _doubt_match(self, candidate: Implementation, why: str) -> None:
        name = candidate.subject.name
        self._events.send(
            "doubt",
            name,
            what=f"weights: {name} was compared with some as they are constructed",
            how_much=f"{why}: whether it uses them is not known",
            fix="name parameters and buffers as the reference does",
            code="weights-unmatched",
        )

    def _about_weights(self, candidate: Implementation, verdict: Verdict) -> Verdict | None:
        """Of a wrong candidate: whether it is right for the weights as constructed, and which it ignores then."""
        name, alive = candidate.subject.name, candidate.alive
        self._events.phase("check", name, factor=2.0)
        if not self._right(candidate, frozenset()):
            return verdict
        if candidate.match.ordered:
            self._doubt_match(candidate, "several of one form were told apart by their order alone")
            candidate.alive = frozenset()
            candidate.take(self._live.constructed)
            return self._compared(candidate)
        ignored = [one for one in sorted(alive)[:_MOST_ASKED] if not self._right(candidate, frozenset({one}))]
        if not ignored:
            return verdict
        if self._born(candidate):
            return self._compared(candidate)
        named = self._live.named(ignored)
        if self._uses(candidate, frozenset(ignored)):
            what = f"right only for the values that {named} is constructed with: {verdict.what}"
        else:
            what = f"ignores {named}: it is right for the values they are constructed with alone"
        return Verdict("mismatch", what)

    def _uses(self, candidate: Implementation, names: frozenset[str]) -> bool:
        """Whether its answer is another with these weights drawn: it is wrong elsewhere then, where those as constructed hide it."""
        arguments, seed, answers = self._unseen(), judge.draw(1)[0], []
        for alive in (frozenset(), names):
            candidate.take(self._live.mixed(alive))
            answers.append(candidate.plain(inputs.clone(arguments), seed))
        return compare(answers[1], answers[0], self.reference.probe.tolerances).status != "ok"

    def _born(self, candidate: Implementation) -> bool:
        """Whether it is right, and stays so constructed, when its constructor finds the drawn weights: it has taken them in
        there. Else it is constructed as it was.
        """
        every, before = frozenset(self._live.live), candidate.alive
        candidate.alive = every
        self._events.phase("build", candidate.subject.name)
        try:
            self._rebuild(candidate)
            if self._right(candidate, every):
                return True
        except LostCandidateError:
            raise
        except Exception:
            # It does not bear that; what it is called rests on what it did before.
            traceback.print_exc(file=sys.stderr)
        candidate.alive = before
        self._put(frozenset())
        candidate.restore()
        return False

    def _rebuild(self, candidate: Implementation) -> None:
        live = self._live.live
        self._put(frozenset(live))
        inputs.torch_seed(self._built_with)
        init, known = self.reference.module.get_init_inputs(), self.reference.model.state_dict()
        told = {"init": init, "weights": dict(known), "live": dict(live), "constructed": self._live.constructed}
        switches = settings.read()
        try:
            candidate.rebuild(told, self._built_with, self._device)
        finally:
            settings.keep(switches, candidate.subject.name, self._events)

    def _outlive(self, sound: list[Implementation]) -> list[Implementation]:
        """Say of right candidates whether their answers follow when the weights change after they were given: they may have
        prepared what they need of them once. Those are given that are right when the weights are as they were.
        """
        names, still = weights.changeable(self.reference.model, self._live.live), weights.padded(self.reference.model)
        every = [*names, *sorted(self.reference.drawn.difference(names))]
        if not every or self.reference.probe.random:
            return sound
        left: list[Implementation] = []
        for number, candidate in enumerate(sound):
            arguments, seed = self._unseen(), judge.draw(1)[0]
            own = self.reference.probe.tolerances
            self._events.phase("work", self.reference.subject.name, factor=2.0)
            try:
                before = self._answer_at(seed, arguments, candidate.alive)
                later = functools.partial(self._later, every, still, seed, candidate.alive)
                after = later(arguments)
                tells = weights.steady(before, after) and compare(after, before, own).status != "ok"
            except Exception as error:
                self._unknown("whether weights that change later are followed is not known", error)
                return [*left, *sound[number:]]
            answers = before, after, later
            with self._blame(candidate.subject, "error") as failed:
                lacks = self._follow(candidate, (every, still), arguments, seed, answers) if tells else None
                if lacks is not None and names and candidate.alive == self._live.live.keys():
                    self._bears_others(candidate, names, every, lacks, failed)
            if failed:
                self._forget([candidate])
            elif not tells or self._as_before(candidate, every):
                left.append(candidate)
        self._memories = None
        return left

    def _as_before(self, candidate: Implementation, names: list[str]) -> bool:
        """Give a candidate these weights as it had them when it was timed; whether it is right then."""
        candidate.forgive(True)
        try:
            self._put(candidate.alive)
            held = self.reference.model.state_dict()
            candidate.take({name: held[name] for name in names}, every=True)
            return self._usual(candidate, candidate.alive).status == "ok"
        except CannotWriteError:
            raise
        except Exception as error:
            self._refuse_lost(error)
            return False
        finally:
            candidate.forgive(False)

    def _later(self, names: list[str], still: list[str], seed: int, alive: frozenset[str], arguments: list[Any]) -> Any:
        """The reference's answer with these weights changed."""
        weights.shift(self.reference.model, names, still=still)
        try:
            return self._answer_at(seed, arguments, alive)
        finally:
            weights.shift(self.reference.model, names, still=still, back=True)

    def _follow(
        self,
        candidate: Implementation,
        which: tuple[list[str], list[str]],
        arguments: list[Any],
        seed: int,
        answers: tuple[Any, Any, Callable[[list[Any]], Any]],
    ) -> list[str] | None:
        """Change a candidate's weights, those of `which` and of them some that hold still, and ask it. answers: the reference's
        before and after, and how it is asked for others then. Where it follows, the names that it has not.
        """
        before, after, later = answers
        name, own = candidate.subject.name, self.reference.probe.tolerances
        self._events.phase("check", name)
        try:
            missing = candidate.shift(*which)
        except Exception as error:
            if not _is_refusal(error):
                raise
            self._doubt_unfollowed(name, f"they cannot be changed: {str(error).partition(chr(10))[0][:200]}")
            return None
        try:
            got = candidate.plain(arguments, seed)
        except Exception as error:
            if not _is_refusal(error):
                raise
            self._doubt_frozen(name, f"it refuses them: {str(error).partition(chr(10))[0][:200]}")
            return None
        if jumps.judged(got, after, arguments, later, own).status == "ok":
            return missing
        if missing:
            lacks = ", ".join(missing[:_MOST_NAMED])
            self._doubt_unfollowed(name, f"it has no weights of the name of {lacks}")
        else:
            kept = compare(got, before, own).status == "ok"
            self._doubt_frozen(name, "it goes on with those it had" if kept else "its answer is wrong then")
        return None

    def _bears_others(
        self, candidate: Implementation, names: list[str], every: list[str], lacks: list[str], failed: list[str]
    ) -> None:
        """Give a candidate that follows weights unlike those that are constructed: who takes for granted what they have in common,
        or leaves out what does not count with them, is wrong then. Of those that it has not nobody knows. every: names of what was
        changed before, and is to be as it was. failed: see `_blame`.
        """
        name = candidate.subject.name
        for one in self._memories_of(names):
            self._events.phase("check", name)
            held = self.reference.model.state_dict()
            verdict = self._bears_memory(candidate, {w: held[w] for w in every}, one)
            if verdict is None:
                return
            if verdict.status == "ok":
                continue
            candidate.take({w: held[w] for w in every}, every=True)
            if self._usual(candidate, self._live.live.keys()).status != "ok":
                self._doubt_unfollowed(name, "it followed them once, and does not when they are as they were")
                return
            if others := [w for w in lacks if w in one.values]:
                self._doubt_unfollowed(name, f"it has no weights of the name of {', '.join(others[:_MOST_NAMED])}")
                return
            if not one.binding:
                self._fragile_where(name, one, verdict.what)
                continue
            what = f"right for weights as they are constructed, wrong where {self._where(one)}: {verdict.what}"
            self._events.send("impl", name, status="mismatch", reason=what)
            failed.append("mismatch")
            return

    def _bears_memory(self, candidate: Implementation, held: Mapping[str, torch.Tensor], one: Memory) -> Verdict | None:
        """What its answer with these weights is called; None where it broke down on some that it need not bear."""
        candidate.forgive(not one.binding)
        try:
            candidate.take({**held, **one.values}, every=True)
            got = candidate.plain(inputs.clone(one.arguments), 0)
            verdict = self._held(candidate, got, one.answer, one.room)
            if verdict.status == "mismatch":
                ask = functools.partial(self._answer_with, one.values)
                verdict = jumps.judged(got, one.answer, one.arguments, ask, self.reference.probe.tolerances)
            if verdict.status == "mismatch" and one.binding and (old := self._goes_on_with(got, held, one)):
                told = weights.said(self.reference.model, old)
                self._doubt_frozen(candidate.subject.name, f"it goes on with those it had of {told}")
                return None
            return verdict
        except CannotWriteError:
            raise
        except Exception as error:
            if one.binding or facts.context_lost(error):
                raise
            self._fragile_where(candidate.subject.name, one, str(error).partition("\n")[0])
            return None
        finally:
            candidate.forgive(False)

    def _goes_on_with(self, got: Any, held: Mapping[str, torch.Tensor], one: Memory) -> list[str]:
        """Names of weights with whose old numbers a wrong answer to new ones is right, nearer than with others of their size: it has
        prepared them once, and they counted too little for that to show before. Nothing is said of what is constant as
        constructed: to go on with that and to take it for granted is the same.
        """
        old = {name: held[name] for name in one.values if name in held and not weights.constant(held[name])}
        kept: dict[str, torch.Tensor] = {}

        def as_with(values: Mapping[str, torch.Tensor]) -> tuple[bool, float]:
            """Whether it is wrong by the reference's answer with these, and by how much."""
            self._events.phase("work", self.reference.subject.name, factor=2.0)
            answer = self._answer_with({**one.values, **values}, inputs.clone(one.arguments))
            found = compare(got, answer, self.reference.probe.tolerances)
            return found.status != "ok", math.inf if found.max_rel is None else found.max_rel

        off = math.inf
        while 0 < len(old) <= _PREPARED:
            tried = {name: as_with({**kept, name: value}) for name, value in old.items()}
            best = min(tried, key=tried.__getitem__)
            (differs, now), kept[best] = tried[best], old.pop(best)
            if not differs:
                others = {name: _turned(value) for name, value in kept.items()}
                return [*kept] if now * _NEARER < as_with(others)[1] else []
            if not now < off:
                break
            off = now
        return []

    def _answer_with(self, values: Mapping[str, torch.Tensor], arguments: list[Any]) -> Any:
        """The reference's answer with these of its weights."""
        self._put(frozenset(self._live.live))
        now = self.reference.model.state_dict()
        before = {name: now[name].clone() for name in values}
        try:
            weights.put(self.reference.model, values)
            return self._ask_reference(arguments)
        finally:
            weights.put(self.reference.model, before)

    def _where(self, one: Memory) -> str:
        return f"{one.like} ({weights.said(self.reference.model, one.values)})"

    def _fragile_where(self, name: str, one: Memory, what: str) -> None:
        self._events.send("fragile", name, input=f"weights where {self._where(one)}", what=what[:300])

    def _memories_of(self, names: list[str]) -> Iterator[Memory]:
        """Found while the first candidate is asked, and kept for the others as far as they take little of the device."""
        if self._memories is not None:
            yield from self._memories
            return
        kept, room = [], _KEPT
        found = reach.quietly(self._others(names))
        while True:
            self._events.phase("work", self.reference.subject.name, factor=2.0)
            self._put(frozenset(self._live.live))
            one = next(found, None)
            if one is None:
                break
            room -= staging.size(exchange.describe(one.answer)["value"], self._device)
            if room > 0:
                kept.append(one)
            yield one
        self._memories = kept

    def _others(self, names: list[str]) -> Iterator[Memory]:
        """Weights unlike those that are constructed, and what is right then, where they make a difference and rounding does not."""
        model, usual = self.reference.model, self.reference.probe.tolerances
        if weights.too_many(model):
            return
        self._events.phase("work", self.reference.subject.name, factor=2.0)
        self._put(frozenset(self._live.live))
        held = {name: one.clone() for name, one in model.state_dict().items() if name in names and not coded(one)}
        names = [name for name in names if name in held]
        arguments, again = self._unseen(), self._unseen()
        before = self._ask_reference(inputs.clone(arguments))

        def put(values: Mapping[str, torch.Tensor]) -> None:
            weights.put(model, values)

        def heard(name: str, value: torch.Tensor) -> bool:
            """Whether the answer hangs on these numbers."""
            self._events.phase("work", self.reference.subject.name, factor=2.0)
            if not value.abs().max() <= _LOUDEST:
                return False
            answers, others = [], (value, _turned(value))
            try:
                for new in others:
                    put({name: new})
                    answers.append(self._ask_reference(inputs.clone(arguments)))
                if not weights.steady(*answers) or compare(answers[1], answers[0], usual).status == "ok":
                    return False
                self._company.step_aside()
                # A bias that a norm takes off again is not heard, however large: what rounding makes of it is nobody's answer.
                changes = [functools.partial(put, {name: new}) for new in others]
                return prober.differ(model, arguments, changes, answers[0], usual)
            finally:
                put({name: held[name]})

        def tried(like: str, values: dict[str, torch.Tensor], *, binding: bool = True) -> Iterator[Memory]:
            self._events.phase("work", self.reference.subject.name, factor=2.0)
            put(values)
            try:
                answer = self._ask_reference(inputs.clone(arguments))
            finally:
                put(held)
            if weights.steady(before, answer) and compare(answer, before, usual).status != "ok":
                own = functools.cache(functools.partial(self._room, arguments, values))
                with patience.aside():
                    yield Memory(like, binding, values, arguments, answer, own)

        seed, patience = judge.draw(1)[0], reach.Patience(self._company.clock)
        trained = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        # With some signs an answer may be rounding alone.
        for signs in (True, False):
            yield from tried("they have other signs and sizes", weights.unlike(model, names, seed, signs=signs))
        for name, value in held.items():
            if patience.over:
                break
            if not heard(name, value) and (times := next((by for by in reach.LOUDER if heard(name, value * by)), 0.0)):
                yield from tried("some that hardly count are larger", {name: value * times})
        reached = reach.Reach(self._ask_reference, arguments, again, usual, self._company.clock)
        patience = reached.patience
        for values in reach.weights(model, names, reached, put):
            yield from tried("they have it remember longer", values)
        # Steps that converge with those as constructed may not with these, and who takes none is as good.
        for times in _SIZES:
            larger = {name: value * times for name, value in held.items() if name in trained}
            yield from tried(f"they are {times:g} times as large", larger, binding=False)
        # Whole numbers have no size: what a table makes of them is what others are given.
        given = {name: held[name] * _GIVEN for name in held if name in weights.tables(model)}
        if not inputs.floating(arguments):
            yield from tried(f"they are {_GIVEN:g} times as large", given, binding=False)

    def _answer_at(self, seed: int, arguments: list[Any], alive: frozenset[str]) -> Any:
        """The reference's answer with the generators at this seed, to these inputs, which stay as they are."""
        inputs.seed_all(seed)
        if self._state.tells:
            state.put(self.reference.model, self._state.values)
        return inputs.clone(self._answer(inputs.clone(arguments), alive))

    def _doubt_unfollowed(self, name: str, how: str) -> None:
        self._events.send(
            "doubt",
            name,
            what=f"weights: whether {name} follows when they change is not known",
            how_much=how,
            fix="name its weights as the reference does",
            code="weights-unfollowed",
        )

    def _doubt_frozen(self, name: str, how: str) -> None:
        self._events.send(
            "doubt",
            name,
            what=f"weights: {name} has prepared them once, and does not follow when they change",
            how_much=f"other numbers were put into the reference's, in place, and {how}: what it did once is in no time",
            fix="prepare them in the call, or again when a weight's _version changes, if they may change",
            code="weights-frozen",
        )

    def _right(self, candidate: Implementation, alive: frozenset[str]) -> bool:
        """Whether one plain call is right with these weights drawn and the others as constructed."""
        candidate.take(self._live.mixed(alive))
        arguments, seed = self._unseen(), judge.draw(1)[0]
        got = candidate.plain(inputs.clone(arguments), seed)
        return self._like(got, self._answer_at(seed, arguments, alive), arguments, alive).status == "ok"

    def _like(self, got: Any, want: Any, arguments: list[Any], alive: Collection[str]) -> Verdict:
        """What a comparison with the reference's answer to these says, but for what jumps there."""

        def ask(near: list[Any]) -> Any:
            return self._answer_at(0, near, frozenset(alive))

        probe = self.reference.probe
        return jumps.judged(got, want, arguments, None if probe.random else ask, probe.tolerances)

    # Properties

    def _hold(self, sound: list[Implementation], wanted: tuple[str, ...]) -> list[Implementation]:
        """Ask for answers to unusual inputs; those of the candidates that the declared task does not excuse go."""
        probe = self.reference.probe
        if not sound or probe.random:
            return sound
        names = [candidate.subject.name for candidate in sound]
        self._events.phase("work", self.reference.subject.name, factor=2.0)
        for trial in self._unusual(wanted):
            for candidate in list(sound):
                if not (candidate.gone or self._bears(candidate, trial)):
                    sound = [one for one in sound if one is not candidate]
            self._events.phase("work", self.reference.subject.name, factor=2.0)
        self._events.send("properties", names=names, kinds=list(wanted))
        return sound

    def _unusual(self, wanted: tuple[str, ...]) -> Iterator[properties.Trial]:
        """Unusual inputs of these kinds, with the reference's answers."""
        module, own = self.reference.module, self.reference.probe.tolerances
        layouts = bool(getattr(module, "any_layout", False))
        drawn, other = self._unseen(), self._unseen()
        return properties.trials(
            drawn,
            properties.domain(module),
            self._ask_reference,
            own,
            wanted,
            layouts,
            other,
            self._room,
            self._company.clock,
            self.reference.probe.mutates,
            self._rounding,
        )

    def _room(
        self, arguments: list[Any], values: Mapping[str, torch.Tensor] | None = None
    ) -> Mapping[str, float] | None:
        """What rounding may do to the reference's answer to these inputs, with these of its weights; see prober.room. None where it fails."""
        return self._off(prober.room, arguments, values)

    def _rounding(self, arguments: list[Any]) -> Mapping[str, float]:
        """The tolerances with what the reference is off from itself in float64 for these inputs, the usual ones where it fails; see
        prober.rounded.
        """
        found = self._off(prober.rounded, arguments)
        return self.reference.probe.tolerances if found is None else found

    def _off(
        self,
        tell: Callable[..., Mapping[str, float] | None],
        arguments: list[Any],
        values: Mapping[str, torch.Tensor] | None = None,
    ) -> Mapping[str, float] | None:
        """The tolerances that `tell` finds for the reference, these inputs and these of its weights; None where the reference fails."""
        model, before = self.reference.model, {}
        self._events.phase("work", self.reference.subject.name, factor=2.0)
        loading.use(self.reference.lock)
        self._put(frozenset(self._live.live))
        if self._state.tells:
            state.put(model, self._state.values)
        try:
            if values:
                held = model.state_dict()
                before = {name: held[name].clone() for name in values}
                weights.put(model, values)
            return tell(model, arguments, self.reference.probe.tolerances, self._company.step_aside)
        except Exception as error:
            self._refuse_lost(error)
            # The reference's trouble with what it need not bear is no candidate's.
            traceback.print_exc(file=sys.stderr)
            return None
        finally:
            weights.put(model, before)

    def _held(self, candidate: Implementation, got: Any, want: Any, room: Callable[[], Any] | None) -> Verdict:
        """What a comparison says by the usual tolerances, and, where these fail somebody and others may hold, by those. To find
        them takes calls in float64: of a large convolution seconds.
        """
        verdict = compare(got, want, self.reference.probe.tolerances)
        if verdict.status != "mismatch" or room is None:
            return verdict
        own = room()
        self._events.phase("check", candidate.subject.name)
        return Verdict("ok") if own is None else compare(got, want, own)

    def _ask_reference(self, arguments: list[Any]) -> Any:
        return self._answer_at(0, arguments, frozenset(self._live.live))

    def _bears(self, candidate: Implementation, trial: properties.Trial) -> bool:
        """Whether the candidate stays: it is right, or nothing says that it has to be."""
        name = candidate.subject.name
        known = self._job.spared.get(name, {})
        if trial.name in known:
            self._fragile(name, trial, known[trial.name])
            return True
        self._events.phase("check", name)
        want, timed = trial.answer, trial.kind in properties.FORMS
        candidate.forgive(timed or (not trial.binding and len(known) < _SPARED))
        try:
            if candidate.alive != self._live.live.keys():
                want = trial.told(self._answer_at(0, trial.arguments, candidate.alive))
            got = trial.told(candidate.plain(inputs.clone(trial.arguments), 0))
            verdict = trial.judged(self._held(candidate, got, want, trial.room))
            if verdict.status == "mismatch":
                verdict = trial.judged(self._like(got, want, trial.arguments, candidate.alive))
            if verdict.status == "mismatch" and trial.rounding is not None:
                verdict = trial.judged(compare(got, want, trial.rounding()))
        except CannotWriteError:
            raise
        except Exception as error:
            if (trial.binding and trial.kind != "layout") or facts.context_lost(error):
                self._accuse(candidate.subject, error, "error")
                return False
            # To refuse a layout aloud is no wrong answer.
            line = str(error).partition("\n")[0]
            there = isinstance(error, (RemoteError, LostCandidateError))
            line = line if there else f"{type(error).__name__}: {line}"
            self._fragile(name, trial, line)
            if candidate.gone and not timed and len(known) < _SPARED:
                self._spare(name, trial.name, line)
            return True
        finally:
            candidate.forgive(False)
        if verdict.status == "ok":
            return True
        with self._blame(candidate.subject, "error") as failed:
            usual = self._usual(candidate, candidate.alive)
        if failed:
            return False
        if usual.status == "ok" and self._now_and_then(candidate, trial, verdict, want):
            what = (
                f"{trial.name}: right when asked again, so it is not the inputs that it does not bear: {verdict.what}"
            )
            self._events.send("impl", name, status="mismatch", reason=what)
        elif usual.status != "ok":
            what = f"right in the trials, wrong in later calls on inputs of the same kind: {usual.what}"
            self._events.send("impl", name, status="stops-computing", reason=what)
        elif trial.binding:
            self._events.send("impl", name, status=verdict.status, reason=f"{trial.name}: {verdict.what}")
        elif given := prober.gives(trial, got, self.reference.probe, self._drawn):
            what = f"gives {given}, which is right for the inputs as they are drawn alone; wrong for {trial.name}"
            self._events.send("impl", name, status="mismatch", reason=what)
        else:
            self._fragile(name, trial, verdict.what)
            return True
        return False

    def _now_and_then(self, candidate: Implementation, trial: properties.Trial, verdict: Verdict, want: Any) -> bool:
        """Whether a candidate that was far off on other values of its inputs is right on them when asked again. What another
        shape, layout or constant finds in memory may be right by chance.
        """
        if trial.kind in properties.FORMS or not (verdict.max_rel or 0.0) > prober.WIDEST:
            return False
        try:
            again = trial.told(candidate.plain(inputs.clone(trial.arguments), 0))
        except CannotWriteError:
            raise
        except Exception:
            # To refuse such values is no answer to them.
            return False
        return self._held(candidate, again, want, trial.room).status == "ok"

    def _usual(self, candidate: Implementation, alive: Collection[str]) -> Verdict:
        """Whether a candidate that was wrong on unusual inputs is right on usual ones now: what it keeps may be old."""
        drawn, last = [self._unseen() for _ in range(_CONTROLS)], Verdict("ok")
        for arguments in drawn:
            got = candidate.plain(inputs.clone(arguments), 0)
            last = self._like(got, self._answer_at(0, arguments, frozenset(alive)), arguments, alive)
            if last.status != "ok":
                break
        return last

    def _fragile(self, name: str, trial: properties.Trial, what: str) -> None:
        self._events.send("fragile", name, input=trial.name, what=what[:300])

    # Work and time

    def _work(self) -> None:
        """Report the declared and the modelled work; failing to model it is a doubt, not an error."""
        events, reference = self._events, self.reference
        events.phase("work", "")
        try:
            said = work.declared(reference.module)
            if said is not None:
                events.send("work", **said)
            cc = facts.device_facts(self._device).get("cc", "")
            events.send("work", **work.modelled(reference.model, self._mine(), cc))
            facts.settle(self._device)
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
            self._events.send("shape", inputs=inputs.described(self._unseen(shape)), file=file)
        return sound

    def _time_apart(self, sound: list[Implementation], where: str, plan: Plan) -> tuple[list[Implementation], str]:
        """(those that are still sound, the file beside timings.csv): timed once more, into a folder there."""
        main = Path(self._job.timings)
        file = f"{where}/{main.name}"
        (main.parent / file).parent.mkdir(parents=True, exist_ok=True)
        job = msgspec.structs.replace(self._job, timings=str(main.parent / file), energy=False)
        left = self._time([self.reference, *sound], job, plan)[1:]
        self._forget([one for one in sound if one not in left])
        self._apart.append(file)
        return left, file

    def _forget(self, wrong: list[Implementation]) -> None:
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
        self._forget([one for one in sound if one not in left])
        wanted = backward.shared(slopes.wanted, set.intersection(*map(set, named.values())))

        def answer(given: list[Any], alive: frozenset[str]) -> Any:
            self._put(alive)
            found = slopes.answer(given, wanted)
            self._put(frozenset(self._live.live))
            return found

        for name in backward.PASSES if wanted else ():
            if left:
                draw = functools.partial(self._slope_data, slopes)
                plan = Plan(draw, answer, slopes.by_place(wanted), name, wanted)
                left, file = self._time_apart(left, name, plan)
                self._events.send("pass", name=name, file=file, wanted=list(wanted))
        return left

    def _slopes(self) -> backward.Slopes | None:
        """The reference's gradients; None, and a doubt, where it has none to compare with."""
        self._events.phase("work", self.reference.subject.name, factor=2.0)
        self._put(frozenset(self._live.live))
        why, found = "the reference draws random numbers or changes its inputs", None
        try:
            if self.reference.probe.repeatable:
                found = backward.Slopes(self.reference.model, self._unseen())
            facts.settle(self._device)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if found is None:
            what, fix = "gradients were neither compared nor timed", "give a reference that can be differentiated"
            self._events.send("doubt", what=what, how_much=why, fix=fix, code="no-gradients")
            return None
        for doubt in found.doubts():
            self._events.send("doubt", **doubt)
        return found

    def _slope_data(self, slopes: backward.Slopes) -> list[Any]:
        return slopes.data(self._unseen())

    def _wanted(self, candidate: Implementation, slopes: backward.Slopes) -> tuple[str, ...]:
        """What the candidate's gradients can be asked by: a parameter it has under another name cannot be."""
        own: dict[str, list[int]] = {}
        with self._blame(candidate.subject, "error"):
            own = candidate.parameters()
        theirs = {n for n, one in backward.parameters(self.reference.model).items() if own.get(n) == list(one.shape)}
        wanted = backward.shared(slopes.wanted, theirs)
        if missing := [name for name in slopes.wanted if name not in wanted]:
            self._doubt_match(candidate, f"its gradients by {', '.join(missing)} were not compared: none of that name")
        return wanted

    def _slopes_right(self, candidate: Implementation, slopes: backward.Slopes, wanted: tuple[str, ...]) -> bool:
        name, what = candidate.subject.name, ""
        with self._blame(candidate.subject, _WRONG_GRADIENT) as failed:
            for _ in range(_SLOPES if wanted else 0):
                self._events.phase("first", name)
                given = self._slope_data(slopes)
                got = candidate.gradients(inputs.clone(given), wanted)
                self._put(candidate.alive)
                what = what or slopes.wrong(got, given, wanted)
                facts.settle(self._device)
        if what:
            self._events.send("impl", name, status=_WRONG_GRADIENT, reason=what)
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
            self._events.phase("time", name)

        while sound:
            current.clear()
            try:
                calls = self._calls(sound, turn, plan or self._plan())
                engine.ready(job or self._job, calls, self._device)
                with self._company.alone(), annotated(self._job.sample, "time"):
                    timed = engine.time_all(job or self._job, calls, self._device, self._events, turn)
                if job is None:
                    self._events.send("timing", **timed)
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
        return Plan(lambda: self._unseen(shape), self._judged, self.reference.probe.tolerances)

    def _calls(self, sound: list[Implementation], turn: Callable[[str], None], plan: Plan) -> dict[str, Any]:
        """Every implementation with input sets of its own, mixed from the same draws; the reference answers for the others when
        they are compared.
        """
        probe = self.reference.probe

        def usable(drawn: list[Any], mixed: list[Any]) -> bool:
            try:
                before = inputs.clone(plan.answer(drawn, frozenset(self._live.live)))
                return weights.steady(before, plan.answer(mixed, frozenset(self._live.live)))
            except Exception as error:
                self._refuse_lost(error)
                traceback.print_exc(file=sys.stderr)
                return False

        stock = Stock(plan.draw, usable)
        count = set_count(stock.bytes, len(sound))
        self._put(frozenset(self._live.live))
        calls: dict[str, Any] = {}
        for one in sound:
            turn(one.subject.name)
            loading.use(one.lock)
            data, own = Data(stock, count), None if one is self.reference else one.own
            compared = not probe.random and one is not self.reference
            answer = (lambda given, alive=one.alive: plan.answer(given, alive)) if compared else None
            if isinstance(one, RemoteImplementation):
                call: Any = RemoteCall(
                    one.model, data, answer, plan.tolerances, plan.of, plan.wanted, not probe.repeatable
                )
            else:
                afresh = functools.partial(state.put, one.model, one.kept)
                call = TimedCall(
                    plan.called(one.model), data, answer, plan.tolerances, not probe.repeatable, afresh, own
                )
            calls[one.subject.name] = call
        return calls

    def _judged(self, given: list[Any], alive: frozenset[str]) -> Any:
        """What is right for timed data, which stays as it is."""
        if self._state.tells:
            state.put(self.reference.model, self._state.values)
        answer = self._answer(inputs.clone(given), alive)
        self._put(frozenset(self._live.live))
        return answer

    # Other modes

    def _annotated_calls(self, implementations: list[Implementation]) -> None:
        """One warm call, then one call each inside sample / implementation / counters: what ncu captures."""
        job, arguments = self._job, self._fresh(self._job.seeds[-1] if self._job.seeds else 0)
        for one in implementations:
            name = one.subject.name
            self._events.phase("build", name)
            with self._blame(one.subject, "error"):
                mine = inputs.clone(arguments)
                one.call(mine)
                facts.settle(self._device)
                self._events.phase("count", name)
                with annotated(job.sample, name, "counters"):
                    one.model(*mine)
                    facts.settle(self._device)
                self._events.send("impl", name, status="counted")

    def _perturb(self, implementations: list[Implementation]) -> None:
        """Time each under other conditions; with half of the data last, which some may not bear."""
        arguments, resident = self._fresh(self._job.seeds[-1] if self._job.seeds else 0), self._resident()
        for one in implementations:
            self._events.phase("first", one.subject.name)
            with self._blame(one.subject, "error"):
                mine = inputs.clone(arguments)
                one.call(mine)
                facts.settle(self._device)
                self._events.phase("time", one.subject.name, factor=2.0)
                calls = {"usual": functools.partial(one.model, *mine)}
                seconds = perturb.conditions(calls, self._device, resident, self._job.budget / 2)
                self._events.send("perturbed", one.subject.name, seconds=seconds)
        half, left = self._half(arguments)
        for one in implementations if left else ():
            self._events.phase("first", one.subject.name)
            with self._blame(one.subject, "error"):
                self._with_half(one, half, left)

    def _with_half(self, one: Implementation, half: list[Any], left: dict[str, float]) -> None:
        """Time it with half of the data, if it answers as the reference does."""
        want = inputs.clone(self.reference.call(inputs.clone(half)))
        less = inputs.clone(half)
        if compare(one.call(less), want, self.reference.probe.tolerances).status != "ok":
            return
        self._events.phase("time", one.subject.name, factor=2.0)
        calls = {"half_size": functools.partial(one.model, *less)}
        seconds = perturb.conditions(calls, self._device, None, self._job.budget / 2)
        self._events.send("perturbed", one.subject.name, seconds=seconds, left=left)

    def _resident(self) -> Resident | None:
        """What takes up room on a GPU; None, and a doubt, where it cannot be built."""
        if self._device.type != "cuda":
            return None
        try:
            return Resident(self._device)
        except RooflineError as error:
            what = "half of the SMs and half of every SM were not tried"
            self._events.send("doubt", what=what, how_much=str(error), fix=error.fix)
            return None

    def _half(self, arguments: list[Any]) -> tuple[list[Any], dict[str, float]]:
        """Half of the data as the reference takes it, and what it leaves of the FLOP and of the bytes; ([], {}) without."""
        cc = facts.device_facts(self._device).get("cc", "")
        whole = work.modelled(self.reference.model, inputs.clone(arguments), cc)
        found: tuple[list[Any], dict[str, float]] = ([], {})
        for half in perturb.halves(arguments):
            try:
                part = work.modelled(self.reference.model, inputs.clone(half), cc)
                facts.settle(self._device)
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
            self._events.phase("sanitize", candidate.subject.name)
            with self._blame(candidate.subject, "error"):
                candidate.call(arguments)
                facts.settle(self._device)
                self._events.send("impl", candidate.subject.name, status="counted")

    def _ceilings(self) -> None:
        """What this CPU can do, measured in the same process with the same threads."""
        from roofline.measure import measure_cpu

        self._events.phase("ceilings")
        try:
            self._events.send("ceilings", ceilings=msgspec.to_builtins(measure_cpu()))
        except (RuntimeError, MemoryError) as error:
            what = "the ceilings of this CPU could not be measured"
            self._events.send("doubt", what=what, how_much=str(error), fix="")


def _turned(value: torch.Tensor) -> torch.Tensor:
    """Other numbers of the same sizes: with the other sign, one place on."""
    return value.neg().reshape(-1).roll(1).view(value.shape)


def _is_refusal(error: Exception) -> bool:
    """Whether an exception is one that the candidate's code raised, and no more than that."""
    if isinstance(error, (LostCandidateError, ChangedResultError, CannotWriteError)):
        return False
    if isinstance(error, RemoteError):
        return error.status in ("", "error")
    return not classified(error, "error").lost


__all__ = ["LostContextError", "Session", "run"]
