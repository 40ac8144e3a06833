"""The engine of one machine: builds run ahead in a pool, each device measures one piece at a time, reports follow.

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

from profkit.campaign.piece import Piece
from profkit.campaign.task import Answer, Task, measured
from profkit.campaign.worker import Worker, WorkerDiedError
from profkit.launch import warm
from profkit.launch.environment import environment, sharing
from profkit.launch.protocol import BEHIND
from profkit.launch.warm import Lent

_TRIES = 2
_CORES_OF_A_GPU = 3
"""Cores left to a measurement on a GPU: what judges, what is judged, and the worker."""


@dataclass(frozen=True)
class Heard:
    """What an engine says. `kind`: begin, say (of task `what`), end, or failed; only the end of a report, or failed, is
    the last of a piece. `where` it is done.
    """

    kind: str
    what: str
    piece: Piece
    where: str
    text: str = ""
    answer: Answer | None = None

    @property
    def reported(self) -> bool:
        """Whether a piece is done."""
        return (self.kind, self.what) == ("end", "report")

    @property
    def last(self) -> bool:
        """Whether nothing more comes of its piece."""
        return self.kind == "failed" or self.reported


class Engine(Protocol):
    """Has all pieces done; which one where and when is its affair."""

    def run(self, pieces: Sequence[Piece], task: Callable[[str, Piece], Task]) -> Generator[Heard, None, None]: ...


@dataclass(frozen=True)
class Place:
    """A device that measures: its name for people, and the variables of its worker."""

    name: str
    variables: Mapping[str, str]


def pool(jobs: int, gpus: int) -> int:
    """How many build at once. jobs: what was asked for, 0 for what the machine can do without disturbing."""
    cores = len(os.sched_getaffinity(0))
    return jobs or max(1, (cores - _CORES_OF_A_GPU * gpus) // (2 if gpus else 1))


class Local:
    """log: where workers write what they print."""

    def __init__(self, places: Sequence[Place], jobs: int, log: Path) -> None:
        self._places, self._jobs, self._log = places, jobs, log

    def run(self, pieces: Sequence[Piece], task: Callable[[str, Piece], Task]) -> Generator[Heard, None, None]:
        """See Engine. Stops what runs when the iterator is closed."""
        with warm.servers() as servers, contextlib.closing(Lent(servers)) as lent:
            floor = _Floor(pieces, task, self._log, lent.fileno())
            if floor.to_measure:
                # What those who build and measure will ask for, while they are still starting themselves.
                servers.prepare(environment(sharing()))
            yield from self._on(floor, len(pieces))

    def _on(self, floor: _Floor, left: int) -> Generator[Heard, None, None]:
        names = [f"build {number + 1}" for number in range(min(self._jobs, len(floor.builds)))]
        threads = [floor.thread(floor.build, name, {}) for name in names]
        threads += [floor.thread(floor.measure, place.name, place.variables) for place in self._places]
        # A report takes a few seconds of a core, a measurement several times that.
        threads += [
            floor.thread(floor.report, f"report {n + 1}", {}, BEHIND) for n in range(-(-len(self._places) // 2))
        ]
        try:
            for one in threads:
                one.start()
            while left:
                heard = floor.heard.get()
                if isinstance(heard, BaseException):
                    raise heard
                left -= heard.last
                yield heard
        finally:
            floor.stop()
            for one in threads:
                one.join()


class _Floor:
    """What the threads share: what is to be built, measured and reported."""

    def __init__(self, pieces: Sequence[Piece], task: Callable[[str, Piece], Task], log: Path, lent: int) -> None:
        self._task, self._log, self._lent = task, log, lent
        self.heard: queue.SimpleQueue[Heard | BaseException] = queue.SimpleQueue()
        self._change = threading.Condition()
        self._stopped = False
        self._workers: list[Worker] = []
        order = sorted(pieces, key=lambda piece: -piece.cost)
        self._reports = [piece for piece in order if measured(Path(task("measure", piece).folder)) is not None]
        self._measures = [piece for piece in order if piece not in self._reports]
        # The same sources are built once, for the first piece that has them.
        self._unbuilt: dict[str, Piece] = {}
        self._needs: dict[str, str] = {}
        for piece in self._measures:
            if piece.built:
                digest = _digest(piece.built)
                self._unbuilt.setdefault(digest, piece)
                self._needs[piece.key] = digest
        self.builds = list(self._unbuilt.items())
        self.to_measure = len(self._measures)

    def thread(
        self, act: Callable[[str, Worker], None], name: str, variables: Mapping[str, str], nice: int = 0
    ) -> threading.Thread:
        """A thread with a worker of its own."""
        worker = Worker(self._log, variables, self._lent, nice)
        self._workers.append(worker)

        def work() -> None:
            try:
                act(name, worker)
            except BaseException as error:
                # For the main thread: nobody else would hear of it.
                self.heard.put(error)
            finally:
                worker.close()

        return threading.Thread(target=work, name=name, daemon=True)

    def stop(self) -> None:
        """Let nothing begin, and end what runs."""
        with self._change:
            self._stopped = True
            self._change.notify_all()
        enders = [threading.Thread(target=worker.close) for worker in self._workers]
        for one in enders:
            one.start()
        for one in enders:
            one.join()

    def build(self, where: str, worker: Worker) -> None:
        """Build what is not built."""
        while True:
            with self._change:
                if self._stopped or not self.builds:
                    return
                digest, piece = self.builds.pop(0)
            # Whatever comes of it: who measures builds what is not there.
            self._ask("build", piece, where, worker)
            with self._change:
                del self._unbuilt[digest]
                self._change.notify_all()

    def measure(self, where: str, worker: Worker) -> None:
        """Measure what is built, until there is nothing."""
        while (piece := self._next()) is not None:
            answer = self._ask("measure", piece, where, worker)
            with self._change:
                self.to_measure -= 1
                if answer.run:
                    self._reports.append(piece)
                self._change.notify_all()
            if not answer.run:
                self.heard.put(Heard("failed", "measure", piece, where, answer.error, answer))

    def _next(self) -> Piece | None:
        with self._change:
            while not self._stopped and self._measures:
                ready = next((p for p in self._measures if self._needs.get(p.key) not in self._unbuilt), None)
                if ready is not None:
                    self._measures.remove(ready)
                    return ready
                self._change.wait()
            return None

    def report(self, where: str, worker: Worker) -> None:
        """Report what is measured, until nothing is measured any more."""
        while True:
            with self._change:
                while not self._stopped and not self._reports and self.to_measure:
                    self._change.wait()
                if self._stopped or not self._reports:
                    return
                piece = self._reports.pop(0)
            answer = self._ask("report", piece, where, worker)
            self.heard.put(Heard("end" if answer.run else "failed", "report", piece, where, answer.error, answer))

    def _ask(self, what: str, piece: Piece, where: str, worker: Worker) -> Answer:
        """Have it done; once more by a new worker when the first has died."""
        self.heard.put(Heard("begin", what, piece, where))
        answer = Answer(what)
        for _ in range(_TRIES):
            try:
                answer = worker.ask(
                    self._task(what, piece), lambda text: self.heard.put(Heard("say", what, piece, where, text))
                )
                break
            except (WorkerDiedError, OSError) as error:
                answer = Answer(what, "", f"the process that was to {what} it died: {error}", "", 2)
                if self._stopped:
                    break
        if what != "report":
            self.heard.put(Heard("end", what, piece, where, answer.line, answer))
        return answer


def _digest(files: Sequence[str]) -> str:
    """Of the contents of these files; "" parts for those that are gone."""
    digest = hashlib.sha256()
    for name in files:
        with contextlib.suppress(OSError):
            digest.update(Path(name).read_bytes() + b"\0")
    return digest.hexdigest()
