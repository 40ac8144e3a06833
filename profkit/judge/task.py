"""Properties of a task, measured before any candidate is judged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from profkit.guest import facts
from profkit.guest.build import loading
from profkit.guest.implementation import Implementation
from profkit.guest.tensors import exchange, inputs, state, weights
from profkit.guest.tensors.compare import coded, tensors
from profkit.judge import cases
from profkit.judge import guests as judge
from profkit.judge.precision import probe
from profkit.judge.precision.oracle import Oracle
from profkit.judge.reference import MOVED, SCALED, ReferenceCalls
from profkit.launch.protocol import PATIENT
from profkit.torch_tools import work

_CONSTANT_WEIGHTS = "weights that are constant as constructed were not drawn anew"
_REDRAWN = "give them other values in the reference's constructor"


class TaskProperties(ReferenceCalls):
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
            self._make_room(arguments, output)
            parts = {"inputs": arguments, "weights": self._held_by_model(), "outputs": output}
            types: dict[str, Any] = {name: _types(part) for name, part in parts.items()}
            events.send("task", **types)
            events.send("inputs", tensors=inputs.described(arguments))
            least = PATIENT * (self._company.clock() - began)
            for seed, shape in self._rounds():
                if shape is not None:
                    events.phase("load", reference.subject.name, least=least)
                    arguments = self._fresh(seed, shape)
                    self._make_room(arguments, reference.call(arguments))
                    facts.settle(self.device)
        return not failed

    def _make_room(self, arguments: list[Any], output: Any) -> None:
        """Reserve room for the largest transfer each way: batch data or weights; answer, gradients."""
        parts = (arguments, exchange.describe(output)["value"], self._held_by_model())
        given, answer, weights_ = (exchange.size_of(part, self.device) for part in parts)
        wanted = {"given": given + max(given + 2 * answer, weights_)}
        wanted["answer"] = given + answer + weights_ * self.differentiated
        self._room = {way: max(bytes_, wanted[way]) for way, bytes_ in self._room.items()}

    def _held_by_model(self) -> dict[str, torch.Tensor]:
        model = self.reference.model
        return dict(model.state_dict()) if isinstance(model, torch.nn.Module) else {}

    @property
    def differentiated(self) -> bool:
        """Whether gradients are compared as well."""
        return (self._job.backward or getattr(self.reference.module, "backward", False) is True) and not self._job.again

    def _vary(self) -> None:
        """Vary inputs that every draw repeats, as far as the reference accepts it.

        Otherwise memoization would be right forever. The result of an earlier process is taken over.
        """
        if "varied" in self._job.probe:
            self._varied = str(self._job.probe["varied"])
            return
        seeds = judge.draw(2)
        with self.finding("whether every draw is the same is not known") as failed:
            drawn = [self._fresh(seed) for seed in seeds]
            if not inputs.repeated(*drawn):
                self._own = drawn[0]
                return
            before = inputs.clone(self.reference.call(self._fresh(seeds[0])))
        if failed:
            return
        for self._varied in (MOVED, SCALED):
            with contextlib.suppress(Exception):
                if weights.steady(before, self.reference.call(self._fresh(seeds[1]))):
                    return
        self._varied = ""
        self.events.send(
            "caveat",
            what="get_inputs() draws the same numbers every time, and the reference fails on others",
            how_much="an answer that is kept from call to call would not show",
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
        """Find state kept between calls; reset it if answers depend on it. Failure is a caveat."""
        if self._job.probe.get("keeps") is False:
            return
        model, seed = self.reference.model, judge.draw(1)[0]
        with self.finding("whether the reference keeps anything from call to call is not known"):
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
        unknown = "the precision of the reference, and which trivial answers would pass, are not known"
        with self.finding(unknown, factor=3.0):
            loading.use(reference.lock)
            self._own = None
            if self._job.again:
                self.probe = probe.known(self._job.probe)
            else:
                self.probe = replace(self._probed(reference), keeps=self._state.tells, varied=self._varied)
                self.probe.report(self.events)
        self.oracle = Oracle(reference.model, self.probe.precision, self._company.step_aside)
        self.oracle.any_dtype = bool(getattr(reference.module, "any_dtype", False))

    def _probed(self, reference: Implementation) -> probe.Probe:
        pause = self._company.step_aside
        found = probe.probe(reference.model, self._fresh, judge.draw(2), pause, self.device)
        if not (found.passing or found.still) or found.random:
            return found
        self._drawn = self.ask_reference(self.unseen())
        oracle = Oracle(reference.model, found.precision, pause)
        return probe.told_apart(found, self._unusual(cases.VALUES), self._drawn, oracle)

    def _work(self) -> None:
        """Report the declared and the modelled work; failing to model it is a caveat, not an error."""
        reference = self.reference
        fix = "declare it: def get_work(): return {'flops': ..., 'bytes': ...}"
        with self.finding("the reference's work could not be modelled", fix):
            said = work.declared(reference.module)
            if said is not None:
                self.events.send("work", **said)
            cc = facts.device_facts(self.device).get("cc", "")
            # What the task allows, and not the detour that its reference takes.
            given = self._mine()
            task = probe.task_type(reference.model, given, None)
            if any(isinstance(leaf, torch.Tensor) and coded(leaf) for _, leaf in tensors(given)):
                task = "fp8"
            narrow = task if task in ("fp16", "bf16", "fp8") else ""
            self.events.send("work", **work.modelled(reference.model, given, cc, narrow))

    def _rounds(self) -> Iterator[tuple[int, int | None]]:
        """(seed, which of get_more_inputs) of every trial; None: get_inputs."""
        seeds = self._job.seeds
        yield from ((seed, None) for seed in seeds)
        if seeds and not self._job.again and hasattr(self.reference.module, "get_more_inputs"):
            inputs.seed_all(seeds[0])
            count = len(self.reference.module.get_more_inputs())
            yield from ((seeds[-1] + 1 + shape, shape) for shape in range(count))

    def _unusual(self, wanted: tuple[str, ...]) -> Iterator[cases.Trial]:
        """Unusual inputs of these kinds, with the reference's answers."""
        module = self.reference.module
        return cases.trials(
            (self.unseen(), self.unseen()),
            self.ask_reference,
            wanted,
            allowed=cases.domain(module),
            layouts=bool(getattr(module, "any_layout", False)),
            holes=self.probe.holes,
            clock=self._company.clock,
        )


def _types(part: Any) -> list[str]:
    leaves = (leaf for _, leaf in tensors(part) if isinstance(leaf, torch.Tensor))
    return sorted({str(leaf.dtype).removeprefix("torch.") for leaf in leaves})
