"""Progress of a campaign: a line per item."""

from __future__ import annotations

import time
from collections.abc import Callable

from profkit.campaign.stages import Answer
from profkit.campaign.work_item import WorkItem
from profkit.errors import CannotProfileError
from profkit.rundir import harmless


def duration(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    text = f"{rest // 60:02}:{rest % 60:02}"
    return f"{hours}:{text}" if hours else text


class Count:
    """Done and failed items, and the remaining time. todo: number of items that are left."""

    def __init__(self, total: int, todo: int, now: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done, self.failed = total, total - todo, 0
        self._todo, self._now, self._began = todo, now, now()

    def hear(self, answer: Answer) -> None:
        self.done += bool(answer.run)
        self.failed += not answer.run

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

    def line(self, item: WorkItem, answer: Answer) -> str:
        """What became of an item that has ended."""
        told = answer.line
        if not answer.run:
            here = answer.code != CannotProfileError.exit_code
            told = f"{'failed' if here else 'skipped'}: {answer.error}"
        return f"{self.head()}: {harmless.line(f'{item.label}: {told}')}"
