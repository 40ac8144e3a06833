"""The answer of a run as soon as it is known, and what was amended later."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from profkit.cli.terminal.progress import Progress
from profkit.cli.terminal.screen import show
from profkit.errors import ProfkitError

if TYPE_CHECKING:
    from profkit.rundir.directory import Run
    from profkit.study.study import Study


class Answer:
    """Shows each candidate's first line once, and again where it was amended; `told` by name.

    `people`: on standard output, where the rest follows; else a document does, and the lines are progress. `before`: a
    run to tell the change against. `study`: what was shown last.
    """

    def __init__(self, now: Progress, *, people: bool, before: Study | None = None) -> None:
        self.told: dict[str, str] = {}
        self._now, self._people, self._before = now, people, before
        self.study: Study | None = None
        self._changes: list[str] = []

    def __call__(self, run: Run) -> None:
        # pandas
        from profkit.report import change, sections
        from profkit.report.writers import terminal
        from profkit.study.study import Study

        study = Study(run)
        # What cannot be said now is said in the end, or is the error that ends the run.
        with contextlib.suppress(ProfkitError):
            timed = run.manifest.timing.rounds > 0
            known = [one.name for one in run.manifest.candidates if one.status != "skipped" and (timed or not one.ok)]
            if not known:
                return
            lines = terminal.answer(study, self.told, known)
            # Whom a change is told has read what was measured, and where.
            lines = lines if self._before is None or self.told else lines[2:]
            self.study = study
            self.told |= {name: line for name, line in sections.sentences(study) if name in known}
            changes = change.lines(self._before, study, known) if self._before is not None else []
            lines += [f"  {line}" for line in changes if line not in self._changes]
            self._changes = changes
            if self._people and lines:
                with self._now.aside():
                    show("\n".join(lines))
            for line in [] if self._people else lines:
                if line:
                    self._now(click.unstyle(line))
