"""Jobs without a verdict: calls for counters, conditions, the sanitizer, ceilings."""

from __future__ import annotations

import contextlib
import functools

import msgspec

from profkit.guest import facts
from profkit.guest.implementation import Implementation
from profkit.guest.tensors import inputs
from profkit.judge.timed import annotated
from profkit.judge.weight_checks import WeightChecks
from profkit.launch.alone import counting
from profkit.torch_tools import perturb
from roofline.errors import RooflineError


class Modes(WeightChecks):
    def _annotated_calls(self, implementations: list[Implementation]) -> None:
        """One warm-up call, then one in the range sample / implementation / counters, for ncu.

        A shared device and its counters are taken for the counted calls alone.
        """
        job, arguments = self._job, self._fresh(self._job.seeds[-1] if self._job.seeds else 0)
        for one in implementations:
            name = one.subject.name
            self.events.phase("build", name)
            with self.blame(one.subject, "error"):
                mine = inputs.clone(arguments)
                one.call(mine)
                facts.settle(self.device)
                with contextlib.ExitStack() as held:
                    with self._company.apart():
                        held.enter_context(counting(job.shared, lambda _: self.events.phase("wait")))
                    held.enter_context(self._company.alone())
                    self.events.phase("count", name)
                    held.enter_context(annotated(job.sample, name, "counters"))
                    one.model(*mine)
                    facts.settle(self.device)
                self.events.send("impl", name, status="counted")

    def _perturb(self, implementations: list[Implementation]) -> None:
        """Time each implementation under other conditions."""
        arguments, resident = self._fresh(self._job.seeds[-1] if self._job.seeds else 0), self._resident()
        for one in implementations:
            self.events.phase("first", one.subject.name)
            with self.blame(one.subject, "error"):
                mine = inputs.clone(arguments)
                one.call(mine)
                facts.settle(self.device)
                self.events.phase("time", one.subject.name, factor=2.0)
                call = functools.partial(one.model, *mine)
                seconds = perturb.conditions(call, self.device, resident, self._job.budget / 2)
                self.events.send("perturbed", one.subject.name, seconds=seconds)

    def _resident(self) -> perturb.Resident | None:
        """The kernel that occupies SMs; None, and a caveat, where it cannot be built."""
        if self.device.type != "cuda":
            return None
        try:
            return perturb.Resident(self.device)
        except RooflineError as error:
            what = "half of the SMs and half of every SM were not tried"
            self.events.send("caveat", what=what, how_much=str(error), fix=error.fix)
            return None

    def _single_calls(self, candidates: list[Implementation]) -> None:
        """One call per candidate for compute-sanitizer, on inputs that come from the host."""
        for candidate in candidates:
            arguments = self._fresh(self._job.seeds[-1] if self._job.seeds else 0)
            self.events.phase("sanitize", candidate.subject.name)
            with self.blame(candidate.subject, "error"):
                candidate.call(arguments)
                facts.settle(self.device)
                self.events.send("impl", candidate.subject.name, status="counted")

    def _ceilings(self) -> None:
        """Measure this device's ceilings in the same process, of a CPU with the same threads."""
        from roofline.measure import measure_cpu, measure_gpu

        self.events.phase("ceilings")
        try:
            found = measure_cpu() if self.device.type == "cpu" else measure_gpu(self.device.index or 0)[1]
            self.events.send("ceilings", ceilings=msgspec.to_builtins(found))
        except (RooflineError, RuntimeError, MemoryError) as error:
            what = "the ceilings of this device could not be measured"
            self.events.send("caveat", what=what, how_much=str(error), fix="")
