"""The measuring step of a sample: the runner checks the candidates against the reference and times them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from collectors.doubt import Doubt
from profkit.errors import ProfkitError
from profkit.launch import isolation, runner
from profkit.record.absorb import absorb
from profkit.record.job import job
from profkit.record.session import Session
from profkit.rundir.files import sha256
from profkit.rundir.manifest import Capture

CUPTI = "cupti.csv"
"""Where the runner writes the activities of one middling call of each implementation."""
_NOWHERE = Path(os.devnull)


class Measure:
    """The judge with every candidate in a process of its own, or the runner alone for those who are trusted."""

    name = "measure"

    def plan(self, session: Session) -> list[str]:
        logs = session.run.logs
        lines = [shlex.join(runner.planned(logs, self.name))]
        if not session.request.trust:
            jobs = [logs / f"{self.name}-{one.name}.job.json" for one in session.chosen]
            lines += [shlex.join(runner.command(file, _NOWHERE)) for file in jobs]
        return lines

    def record(self, session: Session) -> None:
        """Raises ProfkitError when the runner ended before anything was measured, no implementation being to blame."""
        run, wanted = session.run, session.request
        made = job(self.name, run, wanted, session.device, session.parts)
        outcome = runner.Outcome()
        start = runner.run_job if wanted.trust else isolation.run_isolated
        try:
            start(made, run.logs, progress=session.progress, outcome=outcome)
        finally:
            absorb(run, outcome, self.name)
        _list_activities(session)
        if not outcome.finished and not outcome.fallen:
            _ended_early(session, outcome)
        run.save()
        reference = run.manifest.reference
        untold = reference is None or reference.status in ("skipped", "ok")
        if not outcome.finished and not run.timings_csv.exists() and untold:
            last = outcome.exits[-1][1]
            raise ProfkitError(
                f"the runner ended with exit code {last.code} before anything was measured; "
                f"see {run.logs / 'measure.log'}\n{last.tail}",
                fix="`profkit doctor` checks torch and the device",
            )


def _ended_early(session: Session, outcome: runner.Outcome) -> None:
    if session.run.timings_csv.exists():
        code = outcome.exits[-1][1].code
        what = "the runner ended early, after the timing"
        session.run.manifest.doubts.append(Doubt(what, f"exit code {code}", "see logs/measure.log"))


def _list_activities(session: Session) -> None:
    """List what CUPTI saw in one call of each implementation, where it saw anything."""
    file = session.run.path / CUPTI
    if file.exists():
        rows = max(0, file.read_bytes().count(b"\n") - 1)
        session.run.manifest.captures.append(Capture(CUPTI, "cupti", "times", sha256=sha256(file), rows=rows))
