"""Worker process for the tasks of a campaign, one at a time, and its client.

python -m profkit.campaign.worker SERVER DESCRIPTOR

Tasks come as JSON lines on standard input; answers go to standard output. It ends with its parent,
together with its descendants (launch/warden.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec

from profkit.campaign.stages import Answer, Task, decoded, encoded, interrupted, perform, warm
from profkit.launch import process
from profkit.launch.environment import environment, sharing
from profkit.launch.protocol import BARE
from profkit.launch.warden import with_parent
from profkit.launch.warm import Warm

_FAREWELL = 5.0


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
            name, lent = self._servers.lend(environment(sharing()))
            with self._log.open("ab") as log:
                self._process = process.guarded(
                    [*BARE, "profkit.campaign.worker", name, str(lent)],
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
        process.kill_session(running.pid, grace=_FAREWELL)
        running.wait()
        for pipe in _pipes(running):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()


def _end(running: subprocess.Popen[bytes]) -> str:
    """How a process ended; "" if it still runs after a while."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = running.wait(_FAREWELL)
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return ""


def _pipes(running: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert running.stdin is not None
    assert running.stdout is not None
    return running.stdin, running.stdout


def main() -> int:
    with_parent(signal.SIGTERM)
    signal.signal(signal.SIGTERM, interrupted)
    # Prints go to the log.
    told = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    name, lent = sys.argv[1], int(sys.argv[2])
    os.set_inheritable(lent, False)
    warm({name: lent})

    for line in sys.stdin.buffer:
        answer = perform(decoded(line, Task))
        told.write(encoded(answer) + b"\n")
        told.flush()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(143)
