"""Start the runner or judge, follow its events, restart it without a crashed candidate.

A judge has the reference and sends requests to each candidate's own process over a socket. It reports candidates as
`overdue` (to be killed) or `lost` (ended by itself). A crashed candidate does not affect the judge or other candidates.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from profkit.errors import ProfkitError
from profkit.launch import process, protocol
from profkit.launch.environment import environment
from profkit.launch.protocol import Event, Files, Follower, Job, Progress, Subject, write_job
from profkit.rundir.files import MEMORY, ROOM, temporary, unwritable

SLACK = 30.0
"""Extra seconds of the judge beyond a candidate's limit."""
_ROOM = 4 << 30
_FAREWELL = 2.0
"""Seconds for candidates to end after the judge."""


@dataclass
class Outcome:
    """Events of one or more starts of the runner, in order.

    `fallen`: implementation -> (status, reason, last lines) for each that ended the runner. `known`: called with the
    events so far when everything is timed or wrong, before unusual inputs.
    """

    events: list[Event] = field(default_factory=list)
    fallen: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    exits: list[tuple[list[str], process.Exit, Path]] = field(default_factory=list)
    finished: bool = False
    known: Callable[[Sequence[Event]], None] = lambda _: None

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    def first(self, kind: str) -> dict[str, Any]:
        return next((event.data for event in self.events if event.kind == kind), {})


Start = Callable[[Job, Files, Follower], process.Exit]


class Ahead:
    """A runner under a tool, started before its job; it imports torch and waits."""

    def __init__(self, logs: Path, stem: str, prefix: Sequence[str], env: Mapping[str, str], memory: int) -> None:
        self._files = Files(logs, stem)
        self._began, self._waited = time.monotonic(), 0.0
        self._limit: Callable[[float], float] | None = None
        self._end = Future[process.Exit]()
        threading.Thread(target=self._run, args=(prefix, dict(env), memory), daemon=True).start()

    def take(self, job: Job, follower: Follower) -> process.Exit:
        """Send its job and wait for its end; `wall` starts here."""
        self._waited = time.monotonic() - self._began
        write_job(job, self._files.of("job.json"))
        self._limit = follower
        ended = self._end.result()
        return replace(ended, wall=max(0.0, ended.wall - self._waited))

    def close(self) -> None:
        """End the process if it still runs."""
        self._limit = lambda _: -self._waited
        self._end.exception()

    def _run(self, prefix: Sequence[str], env: dict[str, str], memory: int) -> None:
        argv, log = [*prefix, *self._files.argv], self._files.of("log")
        try:
            with temporary() as place:
                told = environment({"TMPDIR": place, protocol.AHEAD: "1", **env})
                self._end.set_result(process.run(argv, log=log, env=told, limit=self._deadline, memory=memory))
        except BaseException as error:
            self._end.set_exception(error)

    def _deadline(self, elapsed: float) -> float | None:
        return None if self._limit is None else self._waited + self._limit(elapsed - self._waited)


def run_job(
    job: Job,
    logs: Path,
    *,
    stem: str = "",
    prefix: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    progress: Progress = lambda _: None,
    outcome: Outcome | None = None,
    ahead: Ahead | None = None,
) -> Outcome:
    """Run `job`; if a candidate crashes or hangs the process, run it again without that one.

    At most one start per subject, and one in all under a sanitizer; events of an interrupted start count, so nothing
    measured is lost. outcome: is filled, so that it survives an exception. stem: name of the files in `logs`, default
    the job's mode. ahead: the first start, with the same stem and prefix.
    """
    outcome = outcome if outcome is not None else Outcome()
    waiting = [ahead] if ahead is not None else []

    def start(job: Job, files: Files, follower: Follower) -> process.Exit:
        argv, log = [*prefix, *files.argv], files.of("log")
        if waiting:
            ended = waiting.pop().take(job, follower)
        else:
            write_job(job, files.of("job.json"))
            with temporary() as place:
                told = environment({"TMPDIR": place, **(env or {})})
                ended = process.run(argv, log=log, env=told, limit=follower, memory=job.memory)
        return _noted(argv, ended, log, follower, outcome)

    least = len(job.subjects) if job.mode == "sanitize" else 1
    return _until_done(job, Files(logs, stem or job.mode), start, progress, outcome, least=least)


def run_isolated(
    job: Job,
    logs: Path,
    *,
    stem: str = "",
    progress: Progress = lambda _: None,
    outcome: Outcome | None = None,
) -> Outcome:
    """Run a "measure" job with every implementation in its own process; see run_job.

    If the judge itself crashes while it handles a candidate, everything starts again without that candidate; also if optional inputs ended a candidate's
    process, which then gets none of them.
    """
    outcome = outcome if outcome is not None else Outcome()

    def start(job: Job, files: Files, follower: Follower) -> process.Exit:
        return _sitting(job, files, follower, progress, outcome)

    return _until_done(job, Files(logs, stem or job.mode), start, progress, outcome, least=2, slack=SLACK)


def _until_done(
    job: Job, files: Files, start: Start, progress: Progress, outcome: Outcome, *, least: int, slack: float = 0.0
) -> Outcome:
    """Start a job until it is done, each time without the last culprit."""
    while True:
        number = 1 + sum(argv[-1].endswith("events.jsonl") for argv, _, _ in outcome.exits)
        now = Files(files.logs, f"{files.stem}-{number}") if number > 1 else files
        follower = Follower(now.of("events.jsonl"), job, progress, outcome.known, slack)
        try:
            ended = start(job, now, follower)
        finally:
            outcome.events += follower.events
        if any(event.kind == "done" for event in follower.events):
            outcome.finished = True
            return outcome
        refused = [line for line in ended.tail.splitlines() if line.startswith("cannot write ")]
        if refused and ended.code == protocol.CANNOT_WRITE:
            # The runner could not write: no implementation is to blame.
            raise ProfkitError(f"{refused[-1]}; see {now.of('log')}", fix=ROOM)
        culprit = _blame(follower, ended, job, outcome)
        if culprit is None:
            return outcome
        progress(f"{culprit.name}: {outcome.fallen[culprit.name][1]}")
        job = msgspec.structs.replace(job, subjects=[one for one in job.subjects if one.name not in outcome.fallen])
        if culprit.role == "reference" or len(job.subjects) < least:
            return outcome


def _noted(argv: list[str], ended: process.Exit, log: Path, follower: Follower, outcome: Outcome) -> process.Exit:
    """End of a process that writes events; the last ones are read."""
    follower(ended.wall)
    outcome.exits.append((argv, ended, log))
    return ended


def _blame(follower: Follower, ended: process.Exit, job: Job, outcome: Outcome) -> Subject | None:
    """The implementation running when the runner ended, recorded as fallen; None without one."""
    last = follower.last()
    name, phase = last.impl, last.phase
    corrupt = next((event for event in follower.events if event.kind == "corrupt"), None)
    # In a candidate's turn the reference is called too.
    name = corrupt.impl if corrupt is not None else name
    culprit = next((subject for subject in job.subjects if subject.name == name), None)
    if culprit is not None:
        found = _verdict(phase, ended, follower.limit + follower.slack if ended.hung else None, job.memory)
        if corrupt is not None:
            found = "corrupt", str(corrupt.data.get("reason", "")), ended.tail
        outcome.fallen.setdefault(name, found)
        # The others are checked afresh, on inputs of other seeds.
        again = {subject.name for subject in job.subjects} - set(outcome.fallen)
        outcome.events[:] = [e for e in outcome.events if e.kind not in ("check", "fragile") or e.impl not in again]
    return culprit


def _verdict(phase: str, ended: process.Exit, limit: float | None, memory: int) -> tuple[str, str, str]:
    """(status, reason, last lines) of a process that ended in `phase`.

    limit: seconds after which it was killed, None if it was not.
    """
    what = protocol.PHASES[phase][2]
    if ended.memory:
        have, may = (f"{size / 2**30:.3g} GiB" for size in (ended.memory, memory))
        return "memory-limit", f"{have} of host memory during {what}, the limit is {may}; killed", ended.tail
    if limit is not None:
        return "hang", f"{what} did not end within {limit:g} s; killed", ended.tail
    how = f"killed by {ended.signal}" if ended.signal else f"ended the process with exit code {ended.code}"
    return "crash", f"{how} during {what}", ended.tail


def _sitting(job: Job, files: Files, follower: Follower, progress: Progress, outcome: Outcome) -> process.Exit:
    """Run the judge to its end; its candidates have ended too."""
    with _private_directory() as folder, temporary() as scratch, contextlib.ExitStack() as stack:
        candidates = [subject for subject in job.subjects if subject.role != "reference"]
        reference = next(Path(subject.file) for subject in job.subjects if subject.role == "reference")
        lines = {one.name: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for one in candidates}
        for end in itertools.chain(*lines.values()):
            stack.callback(end.close)
        children = []
        for subject in candidates:
            mine = _candidate(job, subject, reference, lines[subject.name][1].fileno(), (folder, Path(scratch)))
            own, here = Path(subject.file), Path.cwd()
            own = own.relative_to(here) if own.is_relative_to(here) else own
            follower.staged[mine.subjects[0].file] = str(own)
            write_job(mine, files.of("job.json", subject.name))
            children.append(Child(mine, files, lines[subject.name][1], follower, progress, Path(scratch)))
        judge = msgspec.structs.replace(
            job,
            mode="judge",
            channels={name: one.fileno() for name, (one, _) in lines.items()},
            exchange=str(folder),
        )
        write_job(judge, files.of("job.json"))
        patience = 0.0
        try:
            for child in children:
                child.start()
            given = [one for one, _ in lines.values()]
            env = _environment(Path(scratch))
            ended = process.run(files.argv, log=files.of("log"), env=env, limit=follower, hand_over=given)
            _noted(files.argv, ended, files.of("log"), follower, outcome)
            patience = _FAREWELL
        finally:
            _dismiss(children, patience, outcome)
    for child in children:
        if child.error is not None:
            raise child.error
    return ended


class Child(threading.Thread):
    """Runs one candidate's process and reports at once when it ends."""

    def __init__(
        self, job: Job, files: Files, line: socket.socket, follower: Follower, progress: Progress, scratch: Path
    ) -> None:
        super().__init__(daemon=True)
        self.subject = job.subjects[0]
        self.argv = protocol.command(files.of("job.json", self.subject.name).absolute(), Path(os.devnull))
        self.log = files.of("log", self.subject.name)
        self.ended: process.Exit | None = None
        self.error: ProfkitError | None = None
        self.closing = threading.Event()
        self.over = threading.Event()
        self._line, self._job, self._follower, self._progress = line, job, follower, progress
        self._scratch = scratch

    def run(self) -> None:
        env = _environment(self._scratch)
        try:
            self.ended = process.run(
                self.argv,
                log=self.log,
                env=env,
                # Where it may write, beside what it finds beside itself.
                cwd=_beside(Path(self.subject.file).parent, Path(env["TMPDIR"])),
                limit=self._deadline,
                memory=self._job.memory,
                hand_over=[self._line],
            )
        except ProfkitError as error:
            self.error = error
            return
        # A quiet end was most likely asked for; otherwise the judge reports it.
        if not self.closing.is_set() and (self.ended.code or self.ended.memory):
            self._progress(f"{self.subject.name}: {self._fate(self.ended)[1]}")

    def _deadline(self, elapsed: float) -> float | None:
        gone = self.over.is_set() or self.subject.name in self._follower.overdue
        return 0.0 if gone else None

    def _fate(self, ended: process.Exit) -> tuple[str, str, str]:
        name, follower = self.subject.name, self._follower
        phase, limit = follower.overdue.get(name, (follower.lost.get(name) or follower.last(name).phase, None))
        status, reason, tail = _verdict(phase, ended, limit, self._job.memory)
        return status, reason, follower.theirs(tail)

    @property
    def fallen(self) -> tuple[str, str, str] | None:
        """(status, reason, last lines) if it ended before the judge released it."""
        name, follower = self.subject.name, self._follower
        if self.ended is None or not (self.ended.memory or name in follower.overdue or name in follower.lost):
            return None
        return self._fate(self.ended)


def _candidate(job: Job, subject: Subject, reference: Path, line: int, folders: tuple[Path, Path]) -> Job:
    """Job of one candidate's process, without reference and seed.

    folders: for tensors, and for its TMPDIR.
    """
    place = folders[0] / subject.name
    place.mkdir(mode=0o700)
    # Beside the folders that candidates write into.
    file = stage(subject, reference, folders[1] / "code" / subject.name)
    return msgspec.structs.replace(
        job,
        mode="candidate",
        subjects=[msgspec.structs.replace(subject, file=str(file), content=b"")],
        seeds=[],
        trials=0,
        timings="",
        shared="",
        channels={subject.name: line},
        exchange=str(place),
    )


def stage(subject: Subject, reference: Path, place: Path) -> Path:
    """Make a folder with a candidate's original file and its neighbours, but no reference.

    This prevents importing the reference by accident, not a search for it.
    """
    source = Path(subject.file)
    place.mkdir(parents=True, mode=0o700)
    try:
        _beside(source.parent, place, but=(reference.name, source.name, "__pycache__"))
        if subject.content:
            (place / source.name).write_bytes(subject.content)
            return place / source.name
        return Path(shutil.copy(source, place / source.name))
    except OSError as error:
        raise unwritable(place, error) from error


def _beside(folder: Path, place: Path, but: Collection[str] = ()) -> Path:
    """Link everything in `folder` except these names into `place`; return `place`."""
    for entry in folder.iterdir():
        if entry.name not in but:
            (place / entry.name).symlink_to(entry.resolve())
    return place


def _environment(scratch: Path) -> dict[str, str]:
    """A process's variables; its TMPDIR is deleted with `scratch`."""
    return environment({"TMPDIR": tempfile.mkdtemp(dir=scratch)})


@contextlib.contextmanager
def _private_directory() -> Iterator[Path]:
    """A directory for tensors with access for this user only; in memory if there is room."""
    roomy = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= _ROOM
    with temporary(MEMORY if roomy else None) as name:
        yield Path(name)


def _dismiss(children: Sequence[Child], patience: float, outcome: Outcome) -> None:
    """Wait `patience` seconds for the candidates to end, then kill them."""
    for child in children:
        child.closing.set()
    end = time.monotonic() + patience
    begun = [child for child in children if child.ident is not None]
    for child in begun:
        child.join(max(0.0, end - time.monotonic()))
        child.over.set()
    for child in begun:
        child.join()
        if child.ended is not None:
            outcome.exits.append((child.argv, child.ended, child.log))
            if child.fallen is not None:
                outcome.fallen[child.subject.name] = child.fallen
