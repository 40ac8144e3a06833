"""Calls of the reference: fresh inputs, answers with chosen weights, blame for exceptions."""

from __future__ import annotations

import contextlib
import random
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from profkit.errors import ProfkitError
from profkit.guest import facts
from profkit.guest.clocks import timing
from profkit.guest.implementation import Implementation, classified
from profkit.guest.tensors import inputs, state, weights
from profkit.guest.tensors.compare import Verdict, close, figures, form, inexact, strange, tensors
from profkit.judge import guests as judge
from profkit.judge.precision.oracle import Oracle
from profkit.judge.precision.probe import Probe
from profkit.judge.remote import LostCandidateError, RemoteError
from profkit.judge.timing.company import Company
from profkit.launch.alone import Door
from profkit.launch.protocol import Events, Job, Subject

_CONTROLS = 3
_LOOSE = 6.0
"""Bits of agreement at the same seed, for references that draw random numbers."""
MOVED, SCALED = "moved", "scaled"
"""How data that are drawn the same every time are made other ones."""


class LostContextError(BaseException):
    """The CUDA context is lost; no handler of Exception catches this."""


class ReferenceCalls:
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
        self._varied = ""
        self._own: list[Any] | None = None
        self._drawn: Any = None
        self.built_with = 0
        self._apart: list[str] = []
        door = Door(*job.door) if job.door else Door.of(job.shared) if job.shared else None
        self._company = Company(door, self.device, events)
        self._hosted: set[int | None] = set()
        self._room = {"given": 0, "answer": 0}
        """Device bytes that go over at once."""

    @contextlib.contextmanager
    def blame(self, subject: Subject, status: str) -> Iterator[list[str]]:
        """Report an exception in the block as an event of `subject`, and append to the yielded list."""
        failed: list[str] = []
        try:
            yield failed
        except Exception as error:
            failed.append(status)
            self._accuse(subject, error, status)

    def _accuse(self, subject: Subject, error: Exception, status: str) -> None:
        """Report the failure of `subject`; raise LostContextError when nothing can run after it."""
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
        """Raise LostContextError, blaming the reference, when the error cost the CUDA context."""
        if facts.context_lost(error):
            self._accuse(self.reference.subject, error, "error")

    @contextlib.contextmanager
    def finding(self, what: str, fix: str = "", code: str = "", *, factor: float = 2.0) -> Iterator[list[str]]:
        """A phase of the reference: an exception becomes a caveat, and joins the yielded list."""
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
        """Inputs of this seed; shape: which of get_more_inputs, None for get_inputs."""
        drawn = [inputs.to_device(item, self.device) for item in self._draw(seed, shape)]
        if self._varied and shape is None:
            inputs.vary(drawn, seed, move=self._varied == MOVED)
        return drawn

    def _draw(self, seed: int, shape: int | None) -> Sequence[Any]:
        """Draw inputs on the device, which takes milliseconds; on the host where the device fails."""
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
        """Inputs for the reference alone, drawn once because drawing may be slow."""
        if self._own is None:
            self._own = self.unseen()
        return self._own

    def _unlike(self, seed: int) -> int:
        """Another seed, unrelated to this one and its successors; reproducible for fixed seeds."""
        return judge.draw(1)[0] if self._job.trials else random.Random(seed).getrandbits(31)

    def answer(self, arguments: list[Any], alive: frozenset[str]) -> Any:
        """The reference's answer with the `alive` weights as drawn and the others as constructed."""
        self._company.step_aside()
        self.put(alive)
        return self.reference.call(arguments)

    def put(self, alive: frozenset[str]) -> None:
        if alive != self._alive:
            weights.put(self.reference.model, self.live.mixed(alive))
            self._alive = alive

    def answer_at(self, seed: int, arguments: list[Any], alive: frozenset[str]) -> Any:
        """The reference's answer at this generator seed; the inputs are not changed."""
        inputs.seed_all(seed)
        if self._state.tells:
            state.put(self.reference.model, self._state.values)
        return inputs.clone(self.answer(inputs.clone(arguments), alive))

    def ask_reference(self, arguments: list[Any]) -> Any:
        try:
            return self.answer_at(0, arguments, frozenset(self.live.live))
        except Exception as error:
            self.refuse_lost(error)
            raise

    @contextlib.contextmanager
    def weights_as(self, values: Mapping[str, torch.Tensor]) -> Iterator[None]:
        """Give the reference these weights inside the block."""
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
        """The verdict on an answer; `alive` names the drawn weights in use."""
        want = self.answer_at(seed, arguments, frozenset(alive))
        if self.probe.random:
            return self.loosely(got, want, self.oracle.precision.required)
        return self.oracle.case(arguments, want, drawn=drawn).judged(got)

    def loosely(self, got: Any, want: Any, bits: float = _LOOSE) -> Verdict:
        """The verdict on an answer of random numbers from the same seed; bits: of agreement."""
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

    def usual(self, candidate: Implementation) -> Verdict:
        """Compare a candidate on drawn inputs once more: after unusual ones its state may be stale."""
        last = Verdict("ok")
        for _ in range(_CONTROLS):
            arguments = self.unseen()
            last = self.verdict(candidate.plain(inputs.clone(arguments), 0), arguments, candidate.alive)
            if last.status != "ok":
                break
        return last

    def fragile(self, name: str, where: str, what: str) -> None:
        """Send a condition: silently wrong on inputs that the task does not exclude."""
        self.events.send("fragile", name, input=where, what=what[:300])

    def unmatched(self, candidate: Implementation, why: str) -> None:
        """Send a caveat: some weights were compared as constructed."""
        self.events.send(
            "caveat",
            candidate.subject.name,
            what=f"weights: {candidate.subject.name} was compared with some as they are constructed",
            how_much=f"{why}: whether it uses them is not known",
            fix="name parameters and buffers as the reference does",
            code="weights-unmatched",
        )

    def note(self, name: str, what: str) -> None:
        """Send a remark that does not count against the candidate."""
        self.events.send("note", name, what=what[:300])

    def forget(self, wrong: list[Implementation]) -> None:
        """Remove the samples of candidates that were found wrong after timing."""
        main = Path(self._job.timings)
        for one in wrong:
            for written in (main, *(main.parent / other for other in self._apart)):
                timing.remove(one.subject.name, written)
