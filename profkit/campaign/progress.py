"""Progress of a campaign: a table with a clock on a terminal, else a line per item."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from profkit.campaign.ledger import State
from profkit.campaign.local_engine import Heard
from profkit.campaign.work_item import WorkItem
from profkit.errors import CannotProfileError
from profkit.rundir import harmless

_SHOWN_FAILURES = 5


def duration(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    text = f"{rest // 60:02}:{rest % 60:02}"
    return f"{hours}:{text}" if hours else text


class Count:
    """Running, done and failed items, and an estimate of the remaining time."""

    def __init__(self, items: Sequence[WorkItem], done: int, now: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done = len(items), done
        self.failed: dict[str, str] = {}
        self.running: dict[str, tuple[str, str, float]] = {}
        self._now, self._began = now, now()
        self._cost = self._left = 0.0
        self._measured: set[str] = set()

    def expect(self, todo: Sequence[WorkItem]) -> None:
        """Set the items that are left to measure."""
        self._cost = self._left = sum(item.cost for item in todo)

    def hear(self, heard: Heard) -> None:
        item = heard.item
        if heard.kind in ("begin", "say"):
            since = self.running.get(heard.where, ("", "", self._now()))[2] if heard.kind == "say" else self._now()
            self.running[heard.where] = (item.label, heard.text or heard.what, since)
            return
        self.running.pop(heard.where, None)
        if heard.what == "measure" and item.key not in self._measured:
            self._measured.add(item.key)
            self._left -= item.cost
        if heard.kind == "failed":
            self.failed[item.label] = heard.text
        elif heard.what == "report":
            self.done += 1

    @property
    def elapsed(self) -> float:
        return self._now() - self._began

    @property
    def eta(self) -> float:
        """Estimated seconds left, by finished items; NaN without any."""
        spent = self._cost - self._left
        return self.elapsed * self._left / spent if spent > 0 else float("nan")

    def state(self, pid: int) -> State:
        running = {where: f"{label}: {doing}" for where, (label, doing, _) in self.running.items()}
        return State(self.done, running, dict(self.failed), pid)

    def head(self) -> str:
        """One line: the clock, the share done, the time left."""
        left = f", about {duration(self.eta)} left" if self.eta == self.eta and self._left > 0 else ""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{duration(self.elapsed)}  {self.done} of {self.total} done{failed}{left}"


class Lines:
    """Plain lines, for a pipe or a log."""

    def __init__(self, count: Count, say: Callable[[str], None]) -> None:
        self._count, self._say = count, say

    def __enter__(self) -> Lines:
        self._say(self._count.head())
        return self

    def __exit__(self, *_: object) -> None:
        self._say(self._count.head())

    def hear(self, heard: Heard) -> None:
        if heard.kind == "failed":
            here = heard.answer is None or heard.answer.code != CannotProfileError.exit_code
            self._tell(heard, f"{'failed' if here else 'skipped'}: {heard.text}")
        elif heard.reported and heard.answer is not None:
            self._tell(heard, heard.answer.line)

    def _tell(self, heard: Heard, what: str) -> None:
        self._say(f"{self._count.head()}: {harmless.line(f'{heard.item.label}: {what}')}")


class Screen:
    """A table that is redrawn on a terminal."""

    def __init__(self, count: Count) -> None:
        from rich.console import Console
        from rich.live import Live

        self._count = count
        self._console = Console(file=harmless.beneath(sys.stderr))
        self._live = Live(get_renderable=self._draw, console=self._console, refresh_per_second=2, transient=True)

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        sys.stderr.write(self._count.head() + "\n")

    def hear(self, heard: Heard) -> None:
        if heard.reported and heard.answer is not None:
            told = harmless.line(f"{heard.item.label}: {heard.answer.line}")
            self._console.print(told, markup=False, highlight=False)

    def _draw(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        count, now = self._count, time.monotonic()
        table = Table.grid(padding=(0, 2))
        for where, (label, doing, since) in sorted(count.running.items()):
            table.add_row(*(Text(harmless.line(word)) for word in (where, label, doing, duration(now - since))))
        failures = list(count.failed.items())[-_SHOWN_FAILURES:]
        bad = [Text(harmless.line(f"failed: {what}: {why.partition(chr(10))[0]}")) for what, why in failures]
        return Group(Text(count.head()), table, *bad)


def board(count: Count, say: Callable[[str], None], *, quiet: bool) -> Lines | Screen:
    if not quiet and sys.stderr.isatty():
        return Screen(count)
    return Lines(count, (lambda _: None) if quiet else say)
