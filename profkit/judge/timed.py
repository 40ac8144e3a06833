"""Timed calls: plans, rounds, shapes and gradients."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch

from profkit.guest import backward, facts
from profkit.guest.subject import MEMORY, MOST_SETS, Data, TimedCall
from profkit.guest.tensors import inputs, state
from profkit.guest.tensors.compare import Verdict, leaves, tensors
from profkit.judge import guests as judge
from profkit.judge.precision.bits import Precision
from profkit.judge.precision.oracle import Case, Oracle
from profkit.judge.remote import Remote
from profkit.judge.task import Task
from profkit.judge.timing import engine
from profkit.judge.timing.claims import RemoteCall
from profkit.launch.protocol import Job

DOMAIN = "profkit"
SHAPES = "shapes"
"""Folder beside timings.csv: one folder per shape of get_more_inputs, with the same files."""
_WRONG_GRADIENT = "wrong-gradient"
_SLOPES = 2
"""Number of comparisons of a candidate's gradients before timing."""
_LESS = 4.0
"""Bits that a timed answer may lose against the trials."""


@dataclass(frozen=True)
class Plan:
    """Data, answers and comparison of timed calls. `of`: a pass of backward.PASSES, or ""."""

    draw: Callable[[], list[Any]]
    answer: Callable[[list[Any], frozenset[str]], Any]
    judged: Callable[[list[Any], Any, Any], Verdict]
    of: str = ""
    wanted: tuple[str, ...] = ()


def _as_exact(
    judged: Callable[[list[Any], Any, Any], Verdict], bits: float, given: list[Any], want: Any, got: Any
) -> Verdict:
    """Verdict on a timed answer: about as precise as the trials, or as the task."""
    verdict = judged(given, want, got)
    if verdict.status == "ok" and verdict.bits is not None and verdict.bits < bits - _LESS:
        return Verdict(
            "mismatch", f"right to {verdict.bits:.1f} bits only, {bits:.1f} in the trials", bits=verdict.bits
        )
    return verdict


class Slopes:
    """Expected gradients of a reference by `wanted`. Raises ValueError if it has none."""

    def __init__(self, model: Any, arguments: list[Any], known: Precision) -> None:
        self._model = model
        self._precision = Precision(known.type)
        self._like = [torch.empty_like(one, device="meta") for one in inputs.floating(model(*inputs.clone(arguments)))]
        self._device = next((leaf.device for leaf in inputs.floating(arguments)), torch.device("cpu"))
        given = [(name, leaf) for name, leaf in tensors(arguments, backward.INPUT) if isinstance(leaf, torch.Tensor)]
        names = [name for name, leaf in given if leaf.is_floating_point()]
        names += [name for name in backward.parameters(model) if name not in names]
        data = self.data(arguments)
        found = backward.Gradients(model, names)(*inputs.clone(data))
        self.wanted = tuple(name for name, one in zip(names, found, strict=True) if one is not None)
        if not self.wanted:
            raise ValueError("no gradient reaches an input or a parameter of the reference")
        answer = self.answer(data, self.wanted)
        case = self._case(data, self.wanted, answer)
        self._precision.noise = case.noise()
        self._precision.own = case.own()
        self.dead = [name for name, one in zip(self.wanted, answer, strict=True) if one is None or not bool(one.any())]

    def data(self, arguments: list[Any]) -> list[Any]:
        """The inputs, and a drawn gradient for each output."""
        seeds = [torch.randn(one.shape, dtype=one.dtype, device=self._device) for one in self._like]
        return [arguments, seeds]

    def answer(self, given: list[Any], wanted: Sequence[str]) -> list[torch.Tensor | None]:
        """The reference's gradients for `data`, which stays unchanged."""
        found: list[torch.Tensor | None] = backward.Gradients(self._model, wanted)(*inputs.clone(given))
        return found

    def judged(self, got: Any, given: list[Any], wanted: Sequence[str], answer: Any = None) -> Verdict:
        """Verdict on a candidate's gradients; answer: the reference's, if known."""
        if not isinstance(got, list) or len(got) != len(wanted):
            return Verdict("mismatch", "its process gave another number of gradients")
        for name, mine in zip(wanted, got, strict=True):
            if mine is None:
                return Verdict("mismatch", f"no gradient reaches {name}: its output is detached from it")
        case = self._case(given, wanted, answer if answer is not None else self.answer(given, wanted))
        verdict = case.judged(got, strict=True)
        where, _, rest = verdict.what.partition("]")
        if verdict.status != "ok" and where.startswith("output["):
            name = wanted[int(where.removeprefix("output["))]
            return replace(verdict, what=f"the gradient of {name}{rest}")
        return verdict

    def _case(self, given: list[Any], wanted: Sequence[str], answer: Any) -> Case:
        return Oracle(backward.Gradients(self._model, wanted), self._precision).case(given, answer)


class Timed(Task):
    """Measures calls by shape and with gradients."""

    def _served(self) -> bool:
        """Whether the reference declares SHARES, so that all shapes are timed."""
        module = self.reference.module
        shares = [float(one) for one in getattr(module, "SHARES", ())]
        count = sum(shape is not None for _, shape in self._rounds()) + 1
        fits = len(shares) == count and min(shares) > 0
        if fits:
            program = getattr(module, "PROGRAM_SHARE", None)
            program = [program, program, 1.0, 0.0] if isinstance(program, float | int) else program
            self.events.send("served", shares=shares, program=program)
        elif shares:
            how, fix = (
                f"{len(shares)} of {count}",
                "give one number above 0 for get_inputs() and each of get_more_inputs()",
            )
            self.events.send("caveat", what="SHARES does not fit the shapes", how_much=how, fix=fix, code="no-shares")
        return fits

    def _more_shapes(self, sound: list[Remote]) -> list[Remote]:
        """Time every shape of get_more_inputs() into its own file; drop wrong candidates."""
        for shape in [one for _, one in self._rounds() if one is not None]:
            if not sound:
                break
            sound, file = self._time_apart(sound, f"{SHAPES}/{shape}", self._plan(shape))
            self.events.send("shape", inputs=inputs.described(self.unseen(shape)), file=file)
        return sound

    def _time_apart(self, sound: list[Remote], where: str, plan: Plan) -> tuple[list[Remote], str]:
        """Time into a folder beside timings.csv; return (correct candidates, the file)."""
        main = Path(self._job.timings)
        file = f"{where}/{main.name}"
        (main.parent / file).parent.mkdir(parents=True, exist_ok=True)
        job = msgspec.structs.replace(self._job, timings=str(main.parent / file))
        left = self._time(sound, job, plan)
        judge.let_go(one for one in sound if one not in left)
        return left, file

    def _backward(self, sound: list[Remote]) -> list[Remote]:
        """Compare the gradients and time them; drop candidates with wrong gradients."""
        slopes = self._slopes()
        if slopes is None or not sound:
            return sound
        named = {one.subject.name: self._wanted(one, slopes) for one in sound}
        left = [one for one in sound if self._slopes_right(one, slopes, named[one.subject.name])]
        judge.let_go(one for one in sound if one not in left)
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
                plan = Plan(lambda: slopes.data(self.unseen()), answer, judged, name, wanted)
                left, file = self._time_apart(left, name, plan)
                self.events.send("pass", name=name, file=file, wanted=list(wanted))
        return left

    def _slopes(self) -> Slopes | None:
        """The reference's gradients; None, and a caveat, if it has none."""
        self.put(frozenset(self.live.live))
        what, fix = "gradients were neither compared nor timed", "give a reference that can be differentiated"
        if not self.probe.repeatable:
            why = "the reference draws random numbers or changes its inputs"
            self.events.send("caveat", what=what, how_much=why, fix=fix, code="no-gradients")
            return None
        with self.finding(what, fix, "no-gradients") as failed:
            found = Slopes(self.reference.model, self.unseen(), self.probe.precision)
        if failed:
            return None
        if found.dead:
            what = f"gradients that are zero for the drawn inputs tell nothing: {', '.join(found.dead)}"
            less, fix = "a candidate without them passes", "draw inputs that change them"
            self.events.send("caveat", what=what, how_much=less, fix=fix)
        return found

    def _wanted(self, candidate: Remote, slopes: Slopes) -> tuple[str, ...]:
        """Gradients to compare; parameters with other names are left out, with a caveat."""
        own: dict[str, list[int]] = {}
        with self.blame(candidate.subject, "error"):
            own = candidate.parameters()
        theirs = {n for n, one in backward.parameters(self.reference.model).items() if own.get(n) == list(one.shape)}
        wanted = backward.shared(slopes.wanted, theirs)
        if missing := [name for name in slopes.wanted if name not in wanted]:
            self.unmatched(candidate, f"its gradients by {', '.join(missing)} were not compared: none of that name")
        return wanted

    def _slopes_right(self, candidate: Remote, slopes: Slopes, wanted: tuple[str, ...]) -> bool:
        name, what = candidate.subject.name, ""
        with self.blame(candidate.subject, _WRONG_GRADIENT) as failed:
            for _ in range(_SLOPES if wanted else 0):
                self.events.phase("first", name)
                given = slopes.data(self.unseen())
                got = candidate.do("gradients", inputs.clone(given), list(wanted), phase="first")
                self.put(candidate.alive)
                what = what or slopes.judged(got, given, wanted).what
                facts.settle(self.device)
        if what:
            self.events.send("impl", name, status=_WRONG_GRADIENT, reason=what)
        return not (failed or what)

    def _time(self, candidates: list[Remote], job: Job | None = None, plan: Plan | None = None) -> list[Remote]:
        """Time the reference and these candidates in interleaved rounds; return the candidates left.

        After a failure the others are timed again.
        """
        current: list[str] = []
        sides: list[Any] = [self.reference, *candidates]

        def turn(name: str) -> None:
            current[:] = [name]
            self.events.phase("time", name)

        while sides:
            current.clear()
            try:
                with facts.heap_kept(self.device):
                    calls = self._calls(sides, turn, plan or self._plan())
                    with self._company.alone(), annotated(self._job.sample, "time"):
                        timed = engine.time_all(job or self._job, calls, self.device, self.events, turn)
                    del calls
                if job is None:
                    self.events.send("timing", **timed)
                break
            except Exception as error:
                if not current:
                    raise
                # A process that fails says whose it is; it may be asked out of its turn.
                names = getattr(error, "impl", current[0]), current[0]
                culprit = next(one for name in names for one in sides if one.subject.name == name)
                self._accuse(culprit.subject, error, "error")
                judge.let_go(one for one in candidates if one is culprit)
                sides = [one for one in sides if one is not culprit]
        return [one for one in sides if one is not self.reference]

    def _plan(self, shape: int | None = None) -> Plan:
        def judged(given: list[Any], want: Any, got: Any) -> Verdict:
            return self.oracle.case(given, want, drawn=shape is None).judged(got)

        return Plan(lambda: self.unseen(shape), self._judged, judged)

    def _calls(self, sides: list[Any], turn: Callable[[str], None], plan: Plan) -> dict[str, Any]:
        """Timed calls of the reference and of candidates, each with its own input sets."""
        probe = self.probe
        size = len(sides) * sum(one.untyped_storage().nbytes() for one in leaves(plan.draw()))
        count = int(max(1, min(MOST_SETS, MEMORY // max(1, size))))
        self.put(frozenset(self.live.live))
        calls: dict[str, Any] = {}
        for one in sides:
            turn(one.subject.name)
            data = Data(plan.draw, count)
            if one is self.reference:
                call: Any = TimedCall(backward.timed(one.model, plan.of, plan.wanted), data.turn, None)
            else:
                bits = min(math.inf if plan.of else one.bits, probe.precision.required)
                judged = functools.partial(_as_exact, plan.judged, bits)
                answer = lambda given, alive=one.alive: plan.answer(given, alive)  # noqa: E731
                data = data if probe.random else Data(plan.draw, count, answer, judged)
                call = RemoteCall(one, data, plan.of, plan.wanted, not (probe.random or probe.repeatable))
            calls[one.subject.name] = call
        return calls

    def _judged(self, given: list[Any], alive: frozenset[str]) -> Any:
        """The expected answer for timed data, which stays unchanged."""
        if self._state.tells:
            state.put(self.reference.model, self._state.values)
        answer = self.answer(self._spare(given), alive)
        self.put(frozenset(self.live.live))
        return answer


@contextlib.contextmanager
def annotated(*names: str) -> Iterator[None]:
    """NVTX ranges of these names in profkit's domain, outermost first."""
    import nvtx

    for name in names:
        nvtx.push_range(name, domain=DOMAIN)
    try:
        yield
    finally:
        for _ in names:
            nvtx.pop_range(domain=DOMAIN)
