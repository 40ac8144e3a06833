"""Progress of a long command: a line per step in a pipe, one live line on a terminal.

The live line has a clock, a bar and the current step; a line stays for each step that took long.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from profkit.cli.terminal.screen import redrawn
from profkit.rundir import harmless

LONG = 1.0
"""Seconds from which on a step that is over stays on the terminal, with its time."""
_NARROW, _BAR = 50, 12
"""Columns below which there is no bar, and those it takes."""
_OF = re.compile(r"\[(\d+)/(\d+)\] ")


class Progress:
    """A line per step on standard error, or nothing. Call it with the step that begins.

    `[3/12] name` is one of a number of things, and what follows is a step of it.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet

    def __call__(self, text: str) -> None:
        self.stays(text if _OF.match(text) else f"  {text}")

    def within(self, text: str) -> None:
        """A step of one of many things: a terminal shows it while it lasts."""

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Nothing is drawn inside: what is printed there stays as it is."""
        yield

    def fails(self, text: str) -> None:
        """An error of one of many things, also where no progress is wanted."""
        click.echo(harmless.lines(text), err=True)

    def stays(self, text: str) -> None:
        """A line that stays."""
        if not self._quiet:
            click.echo(harmless.lines(text), err=True)


class Drawn(Progress):
    """The same on a terminal. `now`: seconds of a clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__()
        self._now, self._began = now, now()
        self._whole, self._step = "", ""
        self._since = self._entered = self._began
        self._count = self._of = 0
        self._console = Console(file=harmless.beneath(sys.stderr), highlight=False, markup=False, emoji=False)
        self.live = Live(
            get_renderable=self._draw,
            console=self._console,
            refresh_per_second=5,
            redirect_stdout=False,
            redirect_stderr=False,
            transient=True,
        )

    def __call__(self, text: str) -> None:
        one = _OF.match(text)
        if one is None:
            self._over()
            self._begin(text)
            return
        self._all_over()
        self._count, self._of = int(one[1]) - 1, int(one[2])
        self._whole, self._entered = text[one.end() :], self._now()
        self._begin("")

    def within(self, text: str) -> None:
        self._begin(text)

    def fails(self, text: str) -> None:
        self.stays(text)

    def stays(self, text: str) -> None:
        self._console.print(harmless.lines(text), soft_wrap=True)

    @contextmanager
    def aside(self) -> Iterator[None]:
        self.live.stop()
        yield
        self.live.start()

    def end(self) -> None:
        """Nothing is drawn from now on."""
        self._all_over()
        self.live.stop()

    def _begin(self, step: str) -> None:
        self._step, self._since = harmless.line(step), self._now()

    def _over(self) -> None:
        self._was(self._step, self._now() - self._since)

    def _all_over(self) -> None:
        if not self._whole:
            self._over()
            return
        self._was(f"[{self._count + 1}/{self._of}] {self._whole}", self._now() - self._entered)

    def _was(self, name: str, took: float) -> None:
        if name and took >= LONG:
            self._console.print(f"  {name}: {took:.1f} s", style="dim", overflow="ellipsis", no_wrap=True)

    def _draw(self) -> Any:
        """ "  1:05 ━━━━╸━━━ 3 of 12 ICVXKH: checking cuda, for 8 s"; no bar where room is short."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        now = self._now()
        since = now - self._since
        far = f"{self._count + 1} of {self._of}" if self._of else ""
        waits = f"{self._step}, for {since:.0f} s" if self._step and since >= LONG else self._step
        said = ": ".join(part for part in (self._whole, waits) if part)
        head, rest = f"  {_clock(now - self._began)}", Text(f"{far} {said}".lstrip())
        bare = self._console.width < _NARROW
        rest.truncate(max(1, self._console.width - len(head) - 2 - (0 if bare else _BAR + 1)), overflow="ellipsis")
        bar = ProgressBar(
            total=self._of or None, completed=self._count, width=_BAR, pulse=not self._of, animation_time=now
        )
        line = Table.grid(padding=(0, 1))
        line.add_row(head, *(() if bare else (bar,)), rest)
        return line


def _clock(seconds: float) -> str:
    """[h:]mm:ss."""
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


@contextmanager
def progress(quiet: bool) -> Iterator[Progress]:
    """For standard error as it is."""
    if quiet or not redrawn():
        yield Progress(quiet)
        return
    drawn = Drawn()
    drawn.live.start()
    try:
        yield drawn
    finally:
        drawn.end()
