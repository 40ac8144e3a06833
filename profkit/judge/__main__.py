"""Entry point of the child process."""

from __future__ import annotations

import os
import sys

if sys.version_info < (3, 11) and sys.path and sys.path[0] in ("", os.getcwd()):
    # What -P does: nothing that lies here is imported.
    del sys.path[0]

import signal
import tempfile
import time
from pathlib import Path

import msgspec

from profkit.errors import ProfkitError
from profkit.launch import walls
from profkit.launch.protocol import AHEAD, BEHIND, CANNOT_WRITE, Events, Job
from profkit.launch.warden import with_parent

_LOOK = 0.02
"""Polling interval for the job of a process that was started ahead [s]."""


def main(job_file: str, events_file: str) -> int:
    """Run the job; 0 when it finished, whatever the verdicts."""
    with_parent(signal.SIGKILL)
    # No __pycache__ in the user's folder.
    sys.dont_write_bytecode = True
    job = msgspec.json.decode(_awaited(Path(job_file)), type=Job)
    if job.mode == "candidate":
        return _candidate(job)
    if job.mode == "build":
        os.nice(BEHIND)
        _walled(job)
        from profkit.torch_tools import ahead

        return ahead.build(job)
    events = Events(Path(events_file), job.limits)
    from profkit.judge import session

    try:
        session.run(job, events)
        events.send("done")
    except ProfkitError as error:
        sys.stderr.write(f"\n{error}\n")
        return CANNOT_WRITE
    _end()
    return 0


def _awaited(job_file: Path) -> bytes:
    """The job; a process started ahead imports torch and waits for the job."""
    if AHEAD in os.environ:
        from profkit.judge import session  # noqa: F401

        while not job_file.exists():
            time.sleep(_LOOK)
    return job_file.read_bytes()


def _candidate(job: Job) -> int:
    _walled(job)
    from profkit.guest import candidate

    candidate.serve(job)
    _end()
    return 0


def _walled(job: Job) -> None:
    """Restrict writes to builds, tensors and temporary files; called before torch has threads."""
    Path(job.cache).mkdir(parents=True, exist_ok=True)
    # A process that a candidate starts cannot start CUDA behind the walls, and torch's compiler needs no more than that there is one.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    if not job.trust:
        walls.put_up([job.cache, job.exchange, tempfile.gettempdir()])


def _end() -> None:
    """Exit without the interpreter's shutdown, in which a candidate's library may hang or crash."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
