"""Engines of a campaign, local or on a Dask cluster: build ahead, measure.

An engine, Local or Dask, is a context manager that does single tasks, and ends running ones on exit; `follow` makes
the next task of an item when one has ended.

    python -m profkit.campaign.engine SERVER DESCRIPTOR

is a worker of Local. Tasks are JSON lines on standard input; answers go to standard output. It ends with its parent,
together with its descendants (launch/warden.py).
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import msgspec

from profkit.campaign.stages import Answer, Task, WorkItem, decoded, encoded, interrupted, perform_encoded
from profkit.campaign.stages import warm as warm_up
from profkit.errors import CannotProfileError, ProfkitError
from profkit.launch import process, warm
from profkit.launch.environment import environment
from profkit.launch.protocol import BARE
from profkit.launch.warden import with_parent
from profkit.launch.warm import Warm

_TRIES = 2
_CORES_OF_A_GPU = 3
"""Cores for a measurement on a GPU: judge, candidate and worker."""
RESOURCE = "GPU"
"""Resource of a Dask worker that measures on a GPU."""
_PATIENCE = "20s"
_FAREWELL = 2
_LAST_WORDS = 5.0
"""Seconds for Dask's client, and for a worker, to end."""


Ended = Callable[["Answer | BaseException"], None]
"""Receives a task's answer, or an error that stops the whole campaign."""


def follow(
    engine: Local | Dask, items: Sequence[WorkItem], task: Callable[[str, WorkItem], Task]
) -> Generator[tuple[WorkItem, Answer], None, None]:
    """Do all items; `task`: makes the task of a stage. Raises what ends the whole campaign."""
    events: queue.SimpleQueue[tuple[str, WorkItem, Answer | BaseException]] = queue.SimpleQueue()

    def submit(what: str, item: WorkItem) -> None:
        engine.submit(task(what, item), lambda answer: events.put((what, item, answer)))

    for item in items:
        submit("build" if item.built else "measure", item)
    left = len(items)
    while left:
        what, item, answer = events.get()
        if isinstance(answer, BaseException):
            raise answer
        if what == "build" and not answer.full:
            submit("measure", item)
            continue
        left -= 1
        yield item, answer


def pool(jobs: int, gpus: int) -> int:
    """Number of parallel builds. jobs: requested number, 0 for as many as do not disturb."""
    cores = len(os.sched_getaffinity(0))
    return jobs or max(1, (cores - _CORES_OF_A_GPU * gpus) // (2 if gpus else 1))


class WorkerDiedError(Exception):
    """The worker ended in the middle of a task."""


class Worker:
    """A worker process, restarted when it has ended; for one thread."""

    def __init__(self, log: Path, extra: Mapping[str, str], servers: Warm) -> None:
        self._log, self._extra, self._servers = log, dict(extra), servers
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, task: Task) -> Answer:
        """Have a task done. Raises WorkerDiedError."""
        running, problem = self._started(), None
        try:
            into, out = _pipes(running)
            into.write(encoded(task) + b"\n")
            into.flush()
            answer: Answer = decoded(out.readline(), Answer)
            return answer
        except (OSError, ValueError, msgspec.DecodeError) as error:
            problem = error
        # Broken pipe: the reason is how the process ended, if it did.
        how = _end(running) or str(problem)
        self.close()
        raise WorkerDiedError(how) from problem

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            name, lent = self._servers.lend(environment())
            with self._log.open("ab") as log:
                self._process = process.guarded(
                    [*BARE, "profkit.campaign.engine", name, str(lent)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env={**os.environ, **environment(self._extra)},
                    start_new_session=True,
                    pass_fds=(lent,),
                )
        return self._process

    def close(self) -> None:
        """End the worker and its descendants. Thread-safe."""
        running, self._process = self._process, None
        if running is None:
            return
        process.kill_session(running.pid, grace=_LAST_WORDS)
        running.wait()
        for pipe in _pipes(running):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()


def _end(running: subprocess.Popen[bytes]) -> str:
    """How a process ended; "" if it still runs after a while."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = running.wait(_LAST_WORDS)
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return ""


def _pipes(running: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert running.stdin is not None
    assert running.stdout is not None
    return running.stdin, running.stdout


class Local:
    """Worker processes on this machine, a thread for each.

    places: variables of each measuring worker. log: where workers write their output.
    """

    def __init__(self, places: Sequence[Mapping[str, str]], jobs: int, log: Path) -> None:
        self._log = log
        self._places: dict[str, Sequence[Mapping[str, str]]] = {"build": [{}] * jobs, "measure": places}
        self._workers: list[Worker] = []
        self._stopped = False

    def __enter__(self) -> Local:
        with contextlib.ExitStack() as stack:
            self._servers = stack.enter_context(warm.runners())
            self._pools = {what: ThreadPoolExecutor(len(given)) for what, given in self._places.items()}
            self._idle: dict[str, queue.SimpleQueue[Worker]] = {what: queue.SimpleQueue() for what in self._places}
            for what, given in self._places.items():
                for variables in given:
                    self._workers.append(Worker(self._log, variables, self._servers))
                    self._idle[what].put(self._workers[-1])
            self._undo = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        for one in self._pools.values():
            one.shutdown(wait=False, cancel_futures=True)
        with ThreadPoolExecutor() as enders:
            list(enders.map(Worker.close, self._workers))
        for one in self._pools.values():
            one.shutdown()
        self._undo.close()

    def submit(self, task: Task, ended: Ended) -> None:
        # Modules that builds and measurements need, imported while they start.
        self._servers.prepare(environment())

        def done(future: Future[Answer]) -> None:
            if not future.cancelled():
                ended(future.exception() or future.result())

        self._pools[task.what].submit(self._do, task).add_done_callback(done)

    def _do(self, task: Task) -> Answer:
        """Do the task; once more in a new process if the first has died."""
        worker, answer = self._idle[task.what].get(), Answer()
        for _ in range(_TRIES):
            try:
                answer = worker.ask(task)
                break
            except (WorkerDiedError, OSError) as error:
                answer = Answer("", f"the process that was to {task.what} it died: {error}", "", 2)
                if self._stopped:
                    break
        self._idle[task.what].put(worker)
        return answer


class Dask:
    """An existing Dask cluster; all machines share one file system.

    A GPU's worker is started with `dask worker SCHEDULER --nthreads 1 --resources GPU=1` and takes one measurement at
    a time. The cluster holds no state: its parts may end at any moment, and the same command resumes.
    address: of the scheduler. device: "cpu" for workers without GPUs.
    """

    def __init__(self, address: str, device: str) -> None:
        self._address, self._wants = address, {RESOURCE: 1} if device != "cpu" else None

    def __enter__(self) -> Dask:
        """Raises CannotProfileError without a scheduler."""
        # A lost connection is reported once by us, not by asyncio for each future.
        for name in ("distributed", "asyncio", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError as error:
            fix = "pip install 'profkit[dask]'"
            raise CannotProfileError("the package distributed is not installed", fix=fix) from error
        try:
            self._client = distributed.Client(self._address, timeout=_PATIENCE)
        except (OSError, ValueError) as error:
            raise CannotProfileError(
                f"no Dask scheduler answers at {self._address}: {error}",
                fix="start one: `dask scheduler`, and one worker per GPU: `dask worker ADDRESS --nthreads 1 --resources GPU=1`",
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            self._client.close(timeout=_FAREWELL)

    def submit(self, task: Task, ended: Ended) -> None:
        future = self._client.submit(
            perform_encoded,
            encoded(task),
            pure=False,
            retries=0,
            resources=self._wants if task.what == "measure" else None,
        )
        future.add_done_callback(lambda done: ended(self._answer(done)))

    def _answer(self, future: Any) -> Answer | ProfkitError:
        """The answer of a future; an error if the cluster is gone."""
        error = None
        with contextlib.suppress(OSError, CancelledError, TimeoutError):
            if future.status == "finished":
                answer: Answer = decoded(future.result(), Answer)
                return answer
            error = None if future.cancelled() or self._client.status != "running" else future.exception()
        if error is not None:
            return Answer("", f"{type(error).__name__}: {error}".partition("\n")[0], "", 2)
        return ProfkitError(
            f"the Dask scheduler at {self._address} is gone; results that were delivered stay",
            fix="repeat the command, with this or another scheduler, to resume",
        )


def main() -> int:
    with_parent(signal.SIGTERM)
    signal.signal(signal.SIGTERM, interrupted)
    # Prints go to the log.
    told = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    name, lent = sys.argv[1], int(sys.argv[2])
    os.set_inheritable(lent, False)
    warm_up({name: lent})

    for line in sys.stdin.buffer:
        told.write(perform_encoded(line) + b"\n")
        told.flush()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(143)
