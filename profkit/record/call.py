"""A callable, timed in this very process: the one recorder that starts nothing."""

from __future__ import annotations

import msgspec

from profkit.launch import protocol, runner
from profkit.record.absorb import absorb
from profkit.record.job import job
from profkit.record.session import Session
from profkit.targets.call import Call


class InProcess:
    """Recorder that times the callable and its reference in turns, and models the work.

    The arguments stay as they are.
    """

    name = "measure"

    def plan(self, session: Session) -> list[str]:
        return ["# timed in this process"]

    def record(self, session: Session) -> None:
        """Raises whatever the callable raises."""
        # In this process on purpose: the callable lives here and nowhere else. torch comes with it.
        from profkit.torch_tools.inprocess import measure

        target, run = session.target, session.run
        if not isinstance(target, Call):
            raise TypeError(f"{target.kind} is no callable")
        events = run.logs / "measure.events.jsonl"
        measure(
            target.functions,
            target.arguments,
            job("measure", run, session.request, session.device, ()),
            events,
        )
        told = [msgspec.json.decode(line, type=protocol.Event) for line in events.read_bytes().splitlines()]
        absorb(run, runner.Outcome(events=told), self.name)
