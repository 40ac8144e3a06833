"""The answer of a run as soon as it is known, and what was amended later."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from profkit.cli.terminal.progress import Progress
from profkit.cli.terminal.screen import show
from profkit.errors import ProfkitError

if TYPE_CHECKING:
    from profkit.rundir.directory import Run


class Answer:
    """Shows each candidate's first line once, and again where it was amended; `told` by name.

    `people`: on standard output, where the rest follows; else a document does, and the lines are progress.
    """

    def __init__(self, now: Progress, *, people: bool) -> None:
        self.told: dict[str, str] = {}
        self._now, self._people = now, people

    def __call__(self, run: Run) -> None:
        # pandas
        from profkit.report import sections
        from profkit.report.writers import terminal
        from profkit.study.study import Study

        study = Study(run)
        # What cannot be said now is said in the end, or is the error that ends the run.
        with contextlib.suppress(ProfkitError):
            known = [one.name for one in run.manifest.candidates if one.status != "skipped"]
            lines = terminal.answer(study, self.told, known)
            self.told |= {name: line for name, line in sections.sentences(study) if name in known}
            if self._people and lines:
                with self._now.aside():
                    show("\n".join(lines))
            for line in [] if self._people else lines:
                if line:
                    self._now(line)
