"""A list of samples, each measured once; resumable, with a line of progress per item."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from profkit.campaign.engine import Dask, Local, follow, pool
from profkit.campaign.ledger import Ledger
from profkit.campaign.stages import Answer, Task, WorkItem, encoded
from profkit.errors import CannotProfileError, ProfkitError
from profkit.launch import gpu
from profkit.record.profile import expected_device
from profkit.record.request import Request
from profkit.rundir import harmless


def run(
    name: str, items: Sequence[WorkItem], request: Request, say: Callable[[str], None], jobs: int = 0, dask: str = ""
) -> Generator[tuple[WorkItem, Answer], None, None]:
    """Measure items: yield each with its run or error when done; earlier results first.

    name: the command for people; the same name and request are the same campaign. jobs: parallel builds, 0: automatic.
    dask: address of a scheduler, "" for this machine. Raises CannotProfileError if the device is missing; ProfkitError
    if the campaign runs already, or cannot go on: results stay, and the same command resumes.
    """
    device = request.device if dask else expected_device(request)
    key = hashlib.sha256(encoded((name, os.getcwd(), request))).hexdigest()[:16]
    ledger = Ledger(request.runs, key, name, len(items))
    gpus = len(gpu.visible()) if device == "cuda" and not dask else 0
    log = ledger.folder / "workers.log"
    with Dask(dask, device) if dask else Local(places(device), pool(jobs, gpus), log) as engine, ledger:
        there = ledger.delivered(items)
        for item in items:
            if item.key in there:
                yield item, Answer(str(there[item.key]))
        todo = [item for item in items if item.key not in there]
        count = Count(len(items), len(todo))
        ledger.note(count.done, 0)
        say(count.head())
        wanted = replace(request, runs=request.runs.resolve())

        def task(what: str, item: WorkItem) -> Task:
            return Task(what, item, wanted, str(ledger.work(item).resolve()), ledger.state.id)

        with closing(follow(engine, todo, task)) as ended:
            for item, answer in ended:
                count.hear(answer)
                if answer.full:
                    raise ProfkitError(
                        f"{answer.error}; {count.done} of {count.total} are done and stay",
                        fix="free some disk space, then repeat the command to resume",
                    )
                ledger.note(count.done, count.failed)
                say(count.line(item, answer))
                yield item, answer
        ledger.remove()


_FEWEST, _MOST = 3, 12
_A_CORE, _ROOM = 0.75, 6 << 30
"""Workers per core (either judge or candidate is active), and GPU memory per worker."""


def places(device: str) -> list[dict[str, str]]:
    """Variables of each measuring worker: several per visible GPU, one for the CPU."""
    if device != "cuda":
        return [{}]
    cards: list[Mapping[str, str]] = list(gpu.visible())
    cores = len(os.sched_getaffinity(0)) / max(1, len(cards))
    room = min((int(card["memory"]) for card in cards), default=0) // _ROOM
    many = max(_FEWEST, min(_MOST, int(_A_CORE * cores), room))
    return [{"CUDA_VISIBLE_DEVICES": card["uuid"]} for card in cards] * many


def duration(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    text = f"{rest // 60:02}:{rest % 60:02}"
    return f"{hours}:{text}" if hours else text


def _skipped(answer: Answer) -> bool:
    """Whether this machine cannot measure it, which is no failure."""
    return not answer.run and answer.code == CannotProfileError.exit_code


class Count:
    """Done, failed and skipped items, and the remaining time. todo: number of items left."""

    def __init__(self, total: int, todo: int, now: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done, self.failed, self.skipped = total, total - todo, 0, 0
        self._todo, self._now, self._began = todo, now, now()

    def hear(self, answer: Answer) -> None:
        self.done += bool(answer.run)
        self.skipped += _skipped(answer)
        self.failed += not answer.run and not _skipped(answer)

    @property
    def eta(self) -> float:
        """Estimated seconds left, by finished items; NaN without any."""
        left = self.total - self.done - self.failed - self.skipped
        spent = self._todo - left
        return (self._now() - self._began) * left / spent if spent else float("nan")

    def head(self) -> str:
        """One line: the clock, the share done, the time left."""
        left = f", about {duration(self.eta)} left" if self.eta > 0 else ""
        counts = {"failed": self.failed, "skipped": self.skipped}
        failed = "".join(f", {count} {what}" for what, count in counts.items() if count)
        return f"{duration(self._now() - self._began)}  {self.done} of {self.total} done{failed}{left}"

    def line(self, item: WorkItem, answer: Answer) -> str:
        """Line of a finished item: its verdict, or a word before its error."""
        told = answer.line if answer.run else "skipped" if _skipped(answer) else "failed"
        return f"{self.head()}: {harmless.line(f'{item.label}: {told}')}"
