"""Progress of a campaign: a line per item, on a terminal below it a table of what runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from profkit.campaign.engine import Heard
from profkit.campaign.stages import Answer
from profkit.campaign.work_item import WorkItem
from profkit.errors import CannotProfileError
from profkit.rundir import harmless

Say = Callable[[str], None]


def duration(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    text = f"{rest // 60:02}:{rest % 60:02}"
    return f"{hours}:{text}" if hours else text


class Count:
    """Running, done and failed items, and the remaining time. todo: items that are left."""

    def __init__(self, total: int, todo: Sequence[WorkItem], now: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done = total, total - len(todo)
        self.failed = 0
        self.running: dict[str, tuple[str, str, float]] = {}
        self._now, self._began = now, now()
        self._todo = len(todo)

    def hear(self, heard: Heard) -> None:
        item = heard.item
        if heard.kind in ("begin", "say"):
            since = self.running[heard.where][2] if heard.kind == "say" else self._now()
            self.running[heard.where] = (item.label, heard.text or heard.what, since)
            return
        self.running.pop(heard.where, None)
        self.failed += heard.kind == "failed"
        self.done += heard.last and heard.kind == "end"

    @property
    def eta(self) -> float:
        """Estimated seconds left, by finished items; NaN without any."""
        left = self.total - self.done - self.failed
        spent = self._todo - left
        return (self._now() - self._began) * left / spent if spent else float("nan")

    def head(self) -> str:
        """One line: the clock, the share done, the time left."""
        left = f", about {duration(self.eta)} left" if self.eta > 0 else ""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{duration(self._now() - self._began)}  {self.done} of {self.total} done{failed}{left}"

    def line(self, heard: Heard, answer: Answer) -> str:
        """What became of an item that has ended."""
        told = answer.line
        if heard.kind == "failed":
            here = answer.code != CannotProfileError.exit_code
            told = f"{'failed' if here else 'skipped'}: {heard.text}"
        return f"{self.head()}: {harmless.line(f'{heard.item.label}: {told}')}"

    def __rich__(self) -> Any:
        """The head and a table of what runs."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        now = self._now()
        table = Table.grid(padding=(0, 2))
        for where, (label, doing, since) in sorted(self.running.items()):
            table.add_row(*(Text(harmless.line(word)) for word in (where, label, doing, duration(now - since))))
        return Group(Text(self.head()), table)


@contextmanager
def board(count: Count, say: Say, *, quiet: bool) -> Iterator[Say]:
    """Show a count while the block runs; gives what says a line above it."""
    if quiet or not sys.stderr.isatty():
        tell = say if not quiet else lambda _: None
        tell(count.head())
        yield tell
        tell(count.head())
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=harmless.beneath(sys.stderr))
    with Live(get_renderable=lambda: count, console=console, refresh_per_second=2, transient=True):
        yield lambda line: console.print(line, markup=False, highlight=False)
    sys.stderr.write(count.head() + "\n")
