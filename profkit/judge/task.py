"""The reference: fresh inputs, answers with chosen weights, blame, measured properties."""

from __future__ import annotations

import contextlib
import random
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from profkit.errors import ProfkitError
from profkit.guest import facts
from profkit.guest.implementation import Implementation, classified
from profkit.guest.tensors import exchange, inputs, state, weights
from profkit.guest.tensors.compare import Verdict, close, coded, figures, form, inexact, leaves, strange, tensors
from profkit.judge import cases
from profkit.judge import guests as judge
from profkit.judge.precision.oracle import Oracle
from profkit.judge.precision.probe import Probe, known, task_type, thinned, told_apart
from profkit.judge.precision.probe import probe as probed
from profkit.judge.remote import LostCandidateError, Remote, RemoteError
from profkit.judge.timing.company import Company
from profkit.launch.alone import Door
from profkit.launch.protocol import PATIENT, Events, Job, Subject
from profkit.torch_tools import work

_CONSTANT_WEIGHTS = "constant initial weights were not redrawn"
_REDRAWN = "initialize them differently in the reference's constructor"
_CONTROLS = 3
_LOOSE = 6.0
"""Bits of agreement at the same seed, for references that draw random numbers."""


class LostContextError(BaseException):
    """The CUDA context is lost; no handler of Exception catches this."""


class Task:
    reference: Implementation

    def __init__(self, job: Job, events: Events) -> None:
        self._job = job
        self.events = events
        self.device = facts.choose(job.device)
        self.live = weights.Weights()
        self._alive: frozenset[str] = frozenset()
        self.oracle, self.probe = Oracle(None), Probe()
        self._state = state.State()
        self._afresh: Any = None
        self._varied = False
        self._own: list[Any] | None = None
        self._drawn: dict[str, Any] = {}
        self.built_with = 0
        self._company = Company(Door.of(job.shared) if job.shared else None, self.device, events)
        self._hosted: set[int | None] = set()
        self._sizes = {"given": 0, "answer": 0, "weights": 0}
        """Most device bytes of the inputs, an answer and the model."""

    @contextlib.contextmanager
    def blame(self, subject: Subject, status: str) -> Iterator[list[str]]:
        """Report an exception in the block as an event of `subject`; append its status to the list."""
        failed: list[str] = []
        try:
            yield failed
        except Exception as error:
            failed.append(status)
            self._accuse(subject, error, status)

    def _accuse(self, subject: Subject, error: Exception, status: str) -> None:
        """Report the failure of `subject`; raise LostContextError if the CUDA context is lost."""
        if isinstance(error, ProfkitError):
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
        """Raise LostContextError, blaming the reference, if the error lost the CUDA context."""
        if facts.context_lost(error):
            self._accuse(self.reference.subject, error, "error")

    @contextlib.contextmanager
    def finding(self, what: str, fix: str = "", code: str = "", *, factor: float = 2.0) -> Iterator[list[str]]:
        """A phase of the reference: an exception becomes a caveat, appended to the yielded list."""
        self.events.phase("work", self.reference.subject.name, factor=factor)
        failed: list[str] = []
        try:
            yield failed
            facts.settle(self.device)
        except Exception as error:
            self.refuse_lost(error)
            traceback.print_exc(file=sys.stderr)
            failed.append(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
            self.events.send("caveat", what=what, how_much=failed[0], fix=fix, code=code)

    def _fresh(self, seed: int, shape: int | None = None) -> list[Any]:
        """Inputs of this seed; shape: index into get_more_inputs, None for get_inputs."""
        drawn = [inputs.to_device(item, self.device) for item in self._draw(seed, shape)]
        if self._varied and shape is None:
            inputs.vary(drawn, seed)
        return drawn

    def _draw(self, seed: int, shape: int | None) -> Sequence[Any]:
        """Draw inputs on the device, which is fast; on the host if that fails."""
        self._company.step_aside()
        if self.device.type == "cuda" and shape not in self._hosted:
            try:
                with self.device:
                    return self._drawn_at(seed, shape)
            except Exception as error:
                self.refuse_lost(error)
                self._hosted.add(shape)
        # Others may time meanwhile.
        with self._company.apart():
            return self._drawn_at(seed, shape)

    def _drawn_at(self, seed: int, shape: int | None) -> Sequence[Any]:
        module = self.reference.module
        inputs.seed_all(seed)
        drawn: Sequence[Any] = module.get_inputs() if shape is None else module.get_more_inputs()[shape]
        return drawn

    def unseen(self, shape: int | None = None) -> list[Any]:
        """Inputs of a secret seed."""
        return self._fresh(judge.draw(1)[0], shape)

    def _mine(self) -> list[Any]:
        """Inputs for the reference only, drawn once because drawing may be slow."""
        if self._own is None:
            self._own = self.unseen()
        return self._own

    def _unlike(self, seed: int) -> int:
        """A seed unrelated to this one and its successors; reproducible for fixed seeds."""
        return judge.draw(1)[0] if self._job.trials else random.Random(seed).getrandbits(31)

    def answer(self, arguments: list[Any], alive: frozenset[str]) -> Any:
        """The reference's answer with the `alive` weights as drawn, the others as constructed."""
        self._company.step_aside()
        self.put(alive)
        return self.reference.call(arguments)

    def put(self, alive: frozenset[str]) -> None:
        if alive != self._alive:
            weights.put(self.reference.model, self.live.mixed(alive))
            self._alive = alive

    def answer_at(self, seed: int, arguments: list[Any], alive: frozenset[str]) -> Any:
        """The reference's answer at this generator seed; inputs stay unchanged."""
        inputs.seed_all(seed)
        if self._state.tells:
            state.put(self.reference.model, self._state.values)
        return inputs.clone(self.answer(self._spare(arguments), alive))

    def _spare(self, arguments: list[Any]) -> list[Any]:
        """These inputs, or a copy if the reference writes to its inputs."""
        return inputs.clone(arguments) if self.probe.writes else arguments

    def ask_reference(self, arguments: list[Any]) -> Any:
        try:
            return self.answer_at(0, arguments, frozenset(self.live.live))
        except Exception as error:
            self.refuse_lost(error)
            raise

    @contextlib.contextmanager
    def weights_as(self, values: Mapping[str, torch.Tensor]) -> Iterator[None]:
        """Set these weights of the reference inside the block."""
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
        """Verdict on an answer; `alive` names the drawn weights in use."""
        want = self.answer_at(seed, arguments, frozenset(alive))
        if self.probe.random:
            return self.loosely(got, want, self.oracle.precision.required)
        return self.oracle.case(arguments, want, drawn=drawn).judged(got)

    def loosely(self, got: Any, want: Any, bits: float = _LOOSE) -> Verdict:
        """Verdict on a random answer from the same seed; bits: of agreement."""
        if wrong := form(got, want, any_dtype=self.oracle.any_dtype):
            return wrong
        shown: dict[str, Any] = figures(got, want)
        if close(got, want, bits):
            return Verdict("ok", **shown)
        for (where, a), (_, b) in zip(tensors(got), tensors(want), strict=True):
            if isinstance(b, torch.Tensor) and inexact(b) and (what := strange(a, b)):
                return Verdict("nan", f"{where}: {what}")
        return Verdict(
            "mismatch", f"output differs from the reference's from the same seed, the worst by {shown['max_abs']:.3g}"
        )

    def usual(self, candidate: Remote) -> Verdict:
        """Compare a candidate on drawn inputs again, as unusual inputs may leave stale state."""
        last = Verdict("ok")
        for _ in range(_CONTROLS):
            arguments = self.unseen()
            last = self.verdict(candidate.plain(arguments, 0)[0], arguments, candidate.alive)
            if last.status != "ok":
                break
        return last

    def fragile(self, name: str, where: str, what: str) -> None:
        """Send a condition: silently wrong on inputs that the task does not exclude."""
        self.events.send("fragile", name, input=where, what=what[:300])

    def unmatched(self, candidate: Remote, why: str) -> None:
        """Send a caveat: some weights were compared as constructed."""
        self.events.send(
            "caveat",
            candidate.subject.name,
            what=f"weights: {candidate.subject.name} was compared with some as they are constructed",
            how_much=f"{why}: whether it uses them is not known",
            fix="name parameters and buffers as the reference does",
            code="weights-unmatched",
        )

    def untried(self, what: str, why: str, fix: str) -> None:
        """Send a caveat, which the verdict repeats."""
        self.events.send("caveat", what=what, how_much=why, fix=fix, code="untried")

    def no_time(self, missed: Collection[str], patience: float) -> None:
        """Report unusual inputs or weights skipped after `patience` seconds of reference calls."""
        if names := "; ".join(dict.fromkeys(missed)):
            what = f"skipped for lack of time after {patience:g} s of the reference's calls"
            self.untried(f"unusual inputs or weights: {what}", names, "use smaller inputs, or stop other work")

    def note(self, name: str, what: str) -> None:
        """Send a note that does not count against the candidate."""
        self.events.send("note", name, what=what[:300])

    # Properties of the task

    def _answers(self) -> bool:
        """Whether the reference runs at all; if not, no candidate is blamed."""
        events, reference, job = self.events, self.reference, self._job
        events.phase("first", reference.subject.name)
        began = self._company.clock()
        with self.blame(reference.subject, "error") as failed:
            arguments = self._fresh(job.seeds[0] if job.seeds else 0)
            output = reference.call(arguments)
            facts.settle(self.device)
            inputs.refuse_layouts(arguments, output)
            self._measure_sizes(arguments, output)
            types: dict[str, Any] = {}
            for name, part in {"inputs": arguments, "weights": self._held_by_model(), "outputs": output}.items():
                types[name] = sorted({str(leaf.dtype).removeprefix("torch.") for leaf in leaves(part)})
            events.send("task", **types)
            events.send("inputs", tensors=inputs.described(arguments))
            least = PATIENT * (self._company.clock() - began)
            for seed, shape in self._rounds():
                if shape is not None:
                    events.phase("load", reference.subject.name, least=least)
                    arguments = self._fresh(seed, shape)
                    self._measure_sizes(arguments, reference.call(arguments))
                    facts.settle(self.device)
        return not failed

    def _measure_sizes(self, arguments: list[Any], output: Any) -> None:
        parts = (arguments, exchange.describe(output)["value"], self._held_by_model())
        for name, part in zip(self._sizes, parts, strict=True):
            self._sizes[name] = max(self._sizes[name], exchange.size_of(part, self.device))

    @property
    def _room(self) -> dict[str, int]:
        """Device bytes of the largest transfer in each direction."""
        given, answer, held = self._sizes.values()
        back = (given + held) * self.differentiated + given * self.probe.mutates
        return {"given": given + max(answer * self.differentiated, held), "answer": answer + back}

    def _held_by_model(self) -> dict[str, torch.Tensor]:
        model = self.reference.model
        return dict(model.state_dict()) if isinstance(model, torch.nn.Module) else {}

    @property
    def differentiated(self) -> bool:
        """Whether gradients are compared too."""
        return (self._job.backward or getattr(self.reference.module, "backward", False) is True) and not self._job.again

    def _vary(self) -> None:
        """Vary inputs that every draw repeats, as far as the reference accepts it.

        Otherwise a memoized answer would always be right. An earlier process's result is reused.
        """
        if "varied" in self._job.probe:
            self._varied = bool(self._job.probe["varied"])
            return
        seeds = judge.draw(2)
        with self.finding("it is unknown whether every draw is the same") as failed:
            drawn = [self._fresh(seed) for seed in seeds]
            if not inputs.repeated(*drawn):
                self._own = drawn[0]
                return
            before = inputs.clone(self.reference.call(self._fresh(seeds[0])))
        if failed:
            return
        self._varied = True
        with contextlib.suppress(Exception):
            if weights.steady(before, self.reference.call(self._fresh(seeds[1]))):
                return
        self._varied = False
        self.events.send(
            "caveat",
            what="get_inputs() draws the same numbers every time, and the reference fails on others",
            how_much="a memoized answer would not be detected",
            fix="draw inputs from torch's generator",
            code="inputs-fixed",
        )

    def _enliven(self) -> None:
        """Redraw the reference's constant weights; a failure is a caveat."""
        seeds = judge.draw(2)

        def ask() -> Any:
            arguments = inputs.clone(self._mine())
            inputs.seed_all(seeds[0])
            return inputs.clone(self.reference.call(arguments))

        with self.finding(_CONSTANT_WEIGHTS, _REDRAWN, "weights-constant"):
            self.live = weights.draw(self.reference.model, ask, seeds[1], self.reference.fixed)
        if self.live.unsteady:
            why = "other values take the reference's answer out of its range"
            self.events.send("caveat", what=_CONSTANT_WEIGHTS, how_much=why, fix=_REDRAWN, code="weights-constant")
        self._alive = frozenset(self.live.live)

    def _remember(self) -> None:
        """Find state kept between calls; reset it if answers depend on it. A failure is a caveat."""
        if self._job.probe.get("keeps") is False:
            return
        model, seed = self.reference.model, judge.draw(1)[0]
        with self.finding("it is unknown whether the reference keeps state between calls"):
            self._state = state.changed(model, lambda: self.answer_at(seed, self._mine(), self._alive))
        self._begin_afresh(True)

    def _begin_afresh(self, yes: bool) -> None:
        """Whether the reference's answers depend on state left by earlier calls."""
        if self._afresh is not None:
            self._afresh.remove()
        self._afresh, values = None, self._state.values
        if yes and self._state.tells:
            self._afresh = self.reference.model.register_forward_pre_hook(lambda asked, _: state.put(asked, values))

    def _probe(self) -> None:
        """Measure the reference's precision and try trivial answers; a failure is a caveat."""
        reference = self.reference
        unknown = "the reference's precision, and trivial answers that would pass, are unknown"
        with self.finding(unknown, factor=3.0):
            self._own = None
            if self._job.again:
                self.probe = known(self._job.probe)
            else:
                self.probe = replace(self._probed(reference), keeps=self._state.tells, varied=self._varied)
                self.probe.report(self.events)
        self.oracle = Oracle(reference.model, self.probe.precision, self._between)
        self.oracle.any_dtype = bool(getattr(reference.module, "any_dtype", False))

    def _probed(self, reference: Implementation) -> Probe:
        found = probed(reference.model, self._fresh, judge.draw(2), self._between, self.device)
        if not (found.passing or found.still) or found.random:
            return found
        self._drawn = thinned(self.ask_reference(self.unseen()))
        oracle = Oracle(reference.model, found.precision, self._between)
        return told_apart(found, self._unusual(), self._drawn, oracle)

    def _between(self) -> None:
        """Let others time between two runs of the reference; each may take the phase's limit."""
        self._company.step_aside()
        if self.events.doing is not None:
            self.events.resume(self.events.doing)

    def _work(self) -> None:
        """Report declared and modelled work; failing to model it is a caveat, not an error."""
        reference = self.reference
        fix = "declare it: def get_work(): return {'flops': ..., 'bytes': ...}"
        with self.finding("the reference's work could not be modelled", fix):
            said = work.declared(reference.module)
            if said is not None:
                self.events.send("work", **said)
            cc = facts.device_facts(self.device).get("cc", "")
            # What the task allows, and not the detour that its reference takes.
            given = self._mine()
            task = task_type(reference.model, given, None)
            if any(map(coded, leaves(given))):
                task = "fp8"
            narrow = task if task in ("fp16", "bf16", "fp8") else ""
            self.events.send("work", **work.modelled(reference.model, given, cc, narrow))

    def _rounds(self) -> Iterator[tuple[int, int | None]]:
        """(seed, index into get_more_inputs) of every trial; None: get_inputs."""
        seeds = self._job.seeds
        yield from ((seed, None) for seed in seeds)
        if seeds and not self._job.again and hasattr(self.reference.module, "get_more_inputs"):
            inputs.seed_all(seeds[0])
            count = len(self.reference.module.get_more_inputs())
            yield from ((seeds[-1] + 1 + shape, shape) for shape in range(count))

    def _unusual(self, missed: list[str] | None = None) -> Iterator[cases.Trial]:
        """Unusual inputs, with the reference's answers."""
        module = self.reference.module
        return cases.trials(
            (self.unseen(), self.unseen()),
            self.ask_reference,
            allowed=cases.domain(module),
            holes=self.probe.holes,
            clock=self._company.clock,
            missed=missed,
        )
