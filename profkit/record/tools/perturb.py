"""A sample under other conditions, so that what binds it can be inferred without counters."""

from __future__ import annotations

import shlex

from collectors.caveat import Caveat
from profkit.launch import runner
from profkit.record.absorb import absorb
from profkit.record.job import job
from profkit.record.session import Session
from profkit.rundir.manifest import Perturbed

_LEFT_OUT = {
    "half_sms": "half of the SMs",
    "half_warps": "half of every SM",
    "half_size": "half of the data",
}


class Perturb:
    """The runner once more, all implementations in one process."""

    name = "perturb"

    def plan(self, session: Session) -> list[str]:
        return [shlex.join(runner.planned(session.run.logs, self.name))]

    def record(self, session: Session) -> None:
        """What cannot be tried is a caveat."""
        session.progress("timing under other conditions")
        manifest = session.run.manifest
        made = job(self.name, session.run, session.request, session.device, session.parts)
        outcome = runner.run_job(made, session.run.logs, progress=session.progress)
        absorb(session.run, outcome, self.name, verdicts=False)
        known: dict[str, Perturbed] = {}
        for event in outcome.of("perturbed"):
            one = known.setdefault(event.impl, Perturbed(event.impl))
            one.seconds |= event.data["seconds"]
            one.left |= event.data.get("left", {})
        manifest.perturbed = list(known.values())
        manifest.caveats += [caveat for one in manifest.perturbed for caveat in _untried(one, manifest.device)]
        session.run.save()


def _untried(one: Perturbed, device: dict[str, object]) -> list[Caveat]:
    wanted = [name for name in _LEFT_OUT if device.get("kind") == "cuda" or name == "half_size"]
    missing = [_LEFT_OUT[name] for name in wanted if name not in one.seconds]
    what = f"{one.impl}: not tried with {', '.join(missing)}"
    return [Caveat(what, "what binds it is inferred from the rest", "", "perturb", one.impl)] if missing else []
