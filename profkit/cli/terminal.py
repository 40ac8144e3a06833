"""Terminal output during a command: colour, progress, early answers.

Progress is one line per step in a pipe, and one live line with clock and bar on a terminal.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from profkit.errors import ProfkitError
from profkit.report.layout import on_screen
from profkit.rundir import harmless

if TYPE_CHECKING:
    from profkit.rundir.directory import Run
    from profkit.study.study import Study

LONG = 1.0
"""Seconds from which a finished step stays on the terminal with its time."""
_BAR = 12
_OF = re.compile(r"\[(\d+)/(\d+)\] ")


def settle(context: click.Context) -> None:
    """Colour by NO_COLOR, FORCE_COLOR and TERM; else if stdout is a terminal."""
    if os.environ.get("NO_COLOR"):
        context.color = False
    elif context.color is None and os.environ.get("FORCE_COLOR"):
        context.color = True
    elif os.environ.get("TERM") == "dumb":
        context.color = False


def show(text: str, **how: Any) -> None:
    """Print with prose folded to the terminal's width."""
    click.echo(on_screen(text), **how)


class Progress:
    """One line per step on stderr, or nothing. Call it with the step that begins.

    `[3/12] name` starts one of several items; the following steps belong to it.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet

    def __call__(self, text: str) -> None:
        if not self._quiet:
            click.echo(harmless.lines(text if _OF.match(text) else f"  {text}"), err=True)

    def within(self, text: str) -> None:
        """Progress of a step inside an item."""

    def line(self, text: str) -> None:
        """Print a line that stays; on a terminal its text before ": " becomes the current step."""
        if not self._quiet:
            click.echo(text, err=True)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Pause the live line, so that text can be printed."""
        yield


class Drawn(Progress):
    """Progress as a live line on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars
        from rich.table import Column

        super().__init__()
        said = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
        self.bars = Bars(
            TimeElapsedColumn(),
            BarColumn(_BAR),
            said,
            console=Console(file=harmless.beneath(sys.stderr), highlight=False, markup=False, emoji=False),
            refresh_per_second=5,
            redirect_stdout=False,
            redirect_stderr=False,
            transient=True,
        )
        self._task = self.bars.add_task("", total=None)
        self._name, self._since, self._piece = "", 0.0, False

    def __call__(self, text: str) -> None:
        self.over()
        one = _OF.match(text)
        self._name, self._since, self._piece = harmless.line(text), time.monotonic(), one is not None
        if one is not None:
            self.bars.update(self._task, completed=int(one[1]) - 1, total=int(one[2]))
        self.bars.update(self._task, description=self._name)

    def within(self, text: str) -> None:
        self._name = self._name if self._piece else ""
        self.bars.update(self._task, description=harmless.line(f"{self._name}: {text}" if self._piece else text))

    def line(self, text: str) -> None:
        self.bars.console.print(text, soft_wrap=True)
        self.within(text.partition(": ")[0])

    @contextmanager
    def aside(self) -> Iterator[None]:
        self.bars.stop()
        yield
        self.bars.start()

    def over(self) -> None:
        """Leave a line if the step took LONG or more."""
        took = time.monotonic() - self._since
        if self._name and took >= LONG:
            said = f"  {self._name}: {took:.1f} s"
            self.bars.console.print(said, style="dim", overflow="ellipsis", no_wrap=True)


@contextmanager
def progress(quiet: bool, *, plain: bool = False) -> Iterator[Progress]:
    """Progress that suits stderr; plain: lines only."""
    context = click.get_current_context(silent=True)
    coloured = context is None or context.color is not False
    if quiet or plain or not (coloured and sys.stderr.isatty()):
        yield Progress(quiet)
        return
    drawn = Drawn()
    with drawn.bars:
        yield drawn
        drawn.over()


class Answer:
    """Print each candidate's first line, and again when it changes; `told`: lines by name.

    `people`: print to stdout, before the report; else to stderr, as stdout gets a document. `before`: earlier run to
    compare with. `study`: the last one shown.
    """

    def __init__(self, now: Progress, *, people: bool, before: Study | None = None) -> None:
        self.told: dict[str, str] = {}
        self._now, self._people, self._before = now, people, before
        self.study: Study | None = None
        self._changes: list[str] = []

    def __call__(self, run: Run) -> None:
        # What cannot be said now is said in the end, or is the error that ends the run.
        with contextlib.suppress(ProfkitError):
            lines = self._lines(run)
            if self._people and lines:
                with self._now.aside():
                    show("\n".join(lines))
            for line in [] if self._people else filter(None, lines):
                self._now(click.unstyle(line))

    def _lines(self, run: Run) -> list[str]:
        # pandas
        from profkit.report.sections import answer
        from profkit.report.writers import terminal
        from profkit.study.study import Study

        timed = run.manifest.timing.rounds > 0
        known = [one.name for one in run.manifest.candidates if one.status != "skipped" and (timed or not one.ok)]
        if not known:
            return []
        study = Study(run)
        lines = terminal.lines(study, self.told, known)
        if self._before is not None and not self.told:
            # Whom a change is told has read what was measured, and where.
            lines = lines[2:]
        self.study = study
        self.told |= {name: line for name, line in answer.sentences(study) if name in known}
        changes = terminal.changes(self._before, study, known) if self._before is not None else []
        lines += [f"  {line}" for line in changes if line not in self._changes]
        self._changes = changes
        return lines
