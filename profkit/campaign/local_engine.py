"""Campaign engine on one machine: builds ahead, one measurement per device, reports.

Every thread here stands for one worker process. The order of the measurements: what is built, the longest first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from profkit.campaign.stages import Answer, Task, measured
from profkit.campaign.work_item import WorkItem
from profkit.campaign.worker import Worker, WorkerDiedError
from profkit.launch import warm
from profkit.launch.environment import environment, sharing
from profkit.launch.protocol import BEHIND
from profkit.launch.warm import Lent

_TRIES = 2
_CORES_OF_A_GPU = 3
"""Cores for a measurement on a GPU: judge, candidate and worker."""


@dataclass(frozen=True)
class Heard:
    """An engine's event. `kind`: begin, say (of task `what`), end, or failed; `where`: worker."""

    kind: str
    what: str
    item: WorkItem
    where: str
    text: str = ""
    answer: Answer | None = None

    @property
    def reported(self) -> bool:
        return (self.kind, self.what) == ("end", "report")

    @property
    def last(self) -> bool:
        """Whether this is the last event of its item."""
        return self.kind == "failed" or self.reported


class Engine(Protocol):
    """Does all items, in any order and place."""

    def run(self, items: Sequence[WorkItem], task: Callable[[str, WorkItem], Task]) -> Generator[Heard, None, None]: ...


@dataclass(frozen=True)
class Place:
    """A device that measures: its name for people, and the variables of its worker."""

    name: str
    variables: Mapping[str, str]


def pool(jobs: int, gpus: int) -> int:
    """Number of parallel builds. jobs: as asked for, 0 for as many as do not disturb."""
    cores = len(os.sched_getaffinity(0))
    return jobs or max(1, (cores - _CORES_OF_A_GPU * gpus) // (2 if gpus else 1))


class Local:
    """log: where workers write what they print."""

    def __init__(self, places: Sequence[Place], jobs: int, log: Path) -> None:
        self._places, self._jobs, self._log = places, jobs, log

    def run(self, items: Sequence[WorkItem], task: Callable[[str, WorkItem], Task]) -> Generator[Heard, None, None]:
        """See Engine. Stops what runs when the iterator is closed."""
        with warm.servers() as servers, contextlib.closing(Lent(servers)) as lent:
            queues = _Queues(items, task, self._log, lent.fileno())
            if queues.to_measure:
                # Modules that builds and measurements need, imported while they start.
                servers.prepare(environment(sharing()))
            yield from self._on(queues, len(items))

    def _on(self, queues: _Queues, left: int) -> Generator[Heard, None, None]:
        names = [f"build {number + 1}" for number in range(min(self._jobs, len(queues.builds)))]
        threads = [queues.thread(queues.build, name, {}) for name in names]
        threads += [queues.thread(queues.measure, place.name, place.variables) for place in self._places]
        threads += [
            queues.thread(queues.report, f"report {n + 1}", {}, BEHIND) for n in range(-(-len(self._places) // 2))
        ]
        try:
            for one in threads:
                one.start()
            while left:
                heard = queues.heard.get()
                if isinstance(heard, BaseException):
                    raise heard
                left -= heard.last
                yield heard
        finally:
            queues.stop()
            for one in threads:
                one.join()


class _Queues:
    """Items to build, measure and report, shared by the threads."""

    def __init__(self, items: Sequence[WorkItem], task: Callable[[str, WorkItem], Task], log: Path, lent: int) -> None:
        self._task, self._log, self._lent = task, log, lent
        self.heard: queue.SimpleQueue[Heard | BaseException] = queue.SimpleQueue()
        self._change = threading.Condition()
        self._stopped = False
        self._workers: list[Worker] = []
        order = sorted(items, key=lambda item: -item.cost)
        self._reports = [item for item in order if measured(Path(task("measure", item).folder)) is not None]
        self._measures = [item for item in order if item not in self._reports]
        # Equal sources are built once, for the first item.
        self._unbuilt: dict[str, WorkItem] = {}
        self._needs: dict[str, str] = {}
        for item in self._measures:
            if item.built:
                digest = _digest(item.built)
                self._unbuilt.setdefault(digest, item)
                self._needs[item.key] = digest
        self.builds = list(self._unbuilt.items())
        self.to_measure = len(self._measures)

    def thread(
        self, act: Callable[[str, Worker], None], name: str, variables: Mapping[str, str], nice: int = 0
    ) -> threading.Thread:
        worker = Worker(self._log, variables, self._lent, nice)
        self._workers.append(worker)

        def work() -> None:
            try:
                act(name, worker)
            except BaseException as error:
                # Pass the error to the main thread.
                self.heard.put(error)
            finally:
                worker.close()

        return threading.Thread(target=work, name=name, daemon=True)

    def stop(self) -> None:
        """Begin no more, and end what runs."""
        with self._change:
            self._stopped = True
            self._change.notify_all()
        enders = [threading.Thread(target=worker.close) for worker in self._workers]
        for one in enders:
            one.start()
        for one in enders:
            one.join()

    def build(self, where: str, worker: Worker) -> None:
        while True:
            with self._change:
                if self._stopped or not self.builds:
                    return
                digest, item = self.builds.pop(0)
            # The measurement builds what is missing.
            self._ask("build", item, where, worker)
            with self._change:
                del self._unbuilt[digest]
                self._change.notify_all()

    def measure(self, where: str, worker: Worker) -> None:
        """Measure built items until there are none."""
        while (item := self._next()) is not None:
            answer = self._ask("measure", item, where, worker)
            with self._change:
                self.to_measure -= 1
                if answer.run:
                    self._reports.append(item)
                self._change.notify_all()
            if not answer.run:
                self.heard.put(Heard("failed", "measure", item, where, answer.error, answer))

    def _next(self) -> WorkItem | None:
        with self._change:
            while not self._stopped and self._measures:
                ready = next((p for p in self._measures if self._needs.get(p.key) not in self._unbuilt), None)
                if ready is not None:
                    self._measures.remove(ready)
                    return ready
                self._change.wait()
            return None

    def report(self, where: str, worker: Worker) -> None:
        """Report measured items until nothing is measured any more."""
        while True:
            with self._change:
                while not self._stopped and not self._reports and self.to_measure:
                    self._change.wait()
                if self._stopped or not self._reports:
                    return
                item = self._reports.pop(0)
            answer = self._ask("report", item, where, worker)
            self.heard.put(Heard("end" if answer.run else "failed", "report", item, where, answer.error, answer))

    def _ask(self, what: str, item: WorkItem, where: str, worker: Worker) -> Answer:
        """Do the task; once more in a new worker when the first has died."""
        self.heard.put(Heard("begin", what, item, where))
        answer = Answer(what)
        for _ in range(_TRIES):
            try:
                answer = worker.ask(
                    self._task(what, item), lambda text: self.heard.put(Heard("say", what, item, where, text))
                )
                break
            except (WorkerDiedError, OSError) as error:
                answer = Answer(what, "", f"the process that was to {what} it died: {error}", "", 2)
                if self._stopped:
                    break
        if what != "report":
            self.heard.put(Heard("end", what, item, where, answer.line, answer))
        return answer


def _digest(files: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for name in files:
        with contextlib.suppress(OSError):
            digest.update(Path(name).read_bytes() + b"\0")
    return digest.hexdigest()
