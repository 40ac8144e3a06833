"""A judge's process with the reference, and one for each candidate: started, watched, ended.

The judge asks, over a socket to each candidate, and tells the parent what becomes of them: `overdue` is to be
killed, `lost` has ended by itself. A candidate that falls leaves the judge and the others alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from profkit.errors import ProfkitError
from profkit.launch import process
from profkit.launch.alone import Door
from profkit.launch.environment import environment, sharing
from profkit.launch.protocol import LIMITS, Event, Job, Subject
from profkit.launch.runner import (
    Follower,
    Outcome,
    Progress,
    blame,
    check_room,
    command,
    verdict,
    write_job,
)
from profkit.rundir.files import temporary, unwritable

SLACK = 30.0
"""Seconds the judge gets beyond the limit that it keeps for a candidate."""
_ROOM = 4 << 30
_FAREWELL = 2.0


def _environment(scratch: Path) -> dict[str, str]:
    """A process's variables. What it and its compilers leave in TMPDIR goes with `scratch`."""
    return environment({**sharing(), "TMPDIR": tempfile.mkdtemp(dir=scratch)})


class JudgeFollower(Follower):
    """Follower of the judge's events.

    `overdue`: candidate -> (phase, its limit [s]); `lost`: candidate -> phase.
    """

    def __init__(
        self,
        path: Path,
        limits: dict[str, float],
        progress: Progress,
        known: Callable[[Sequence[Event]], None] = lambda _: None,
    ) -> None:
        super().__init__(path, limits, progress, known)
        self.overdue: dict[str, tuple[str, float]] = {}
        self.lost: dict[str, str] = {}
        self._seen = 0

    def __call__(self, elapsed: float) -> float:
        deadline = super().__call__(elapsed)
        for event in self.events[self._seen :]:
            if event.kind == "overdue":
                self.overdue[event.impl] = (str(event.data["phase"]), float(event.data["limit"]))
            elif event.kind == "lost":
                self.lost[event.impl] = str(event.data["phase"])
        self._seen = len(self.events)
        return deadline + SLACK

    def phase_of(self, name: str) -> str:
        """The phase in which an implementation was last heard of."""
        return next((e.phase for e in reversed(self.events) if e.kind == "phase" and e.impl == name), "start")


class Child(threading.Thread):
    """Runs one candidate's process and says at once when it falls."""

    def __init__(
        self,
        job: Job,
        argv: list[str],
        log: Path,
        line: int,
        follower: JudgeFollower,
        progress: Progress,
        scratch: Path,
    ) -> None:
        super().__init__(daemon=True)
        self.subject = job.subjects[0]
        self.argv, self.log = argv, log
        self.ended: process.Exit | None = None
        self.error: ProfkitError | None = None
        self.closing = threading.Event()
        self.over = threading.Event()
        self.line = line
        self.mark = secrets.token_hex(8)
        self._job, self._follower, self._progress = job, follower, progress
        self._scratch = scratch

    def run(self) -> None:
        try:
            self.ended = process.run(
                self.argv,
                log=self.log,
                env=_environment(self._scratch),
                watch=self._deadline,
                memory=self._job.memory,
                hand_over=[self.line],
                mark=self.mark,
            )
        except ProfkitError as error:
            self.error = error
            return
        # Who leaves quietly was most likely let go; otherwise the judge will say so.
        if not self.closing.is_set() and (self.ended.code or self.ended.memory):
            self._progress(f"{self.subject.name}: {self._fate(self.ended)[1]}")

    def _deadline(self, elapsed: float) -> float | None:
        gone = self.over.is_set() or self.subject.name in self._follower.overdue
        return 0.0 if gone else None

    def _fate(self, ended: process.Exit) -> tuple[str, str, str]:
        name, follower = self.subject.name, self._follower
        phase, limit = follower.overdue.get(name, (follower.lost.get(name) or follower.phase_of(name), None))
        return verdict(phase, ended, limit, self._job.memory)

    @property
    def fallen(self) -> tuple[str, str, str] | None:
        """(status, reason, last lines) when it went before the judge let it go."""
        name, follower = self.subject.name, self._follower
        if self.ended is None or not (self.ended.memory or name in follower.overdue or name in follower.lost):
            return None
        return self._fate(self.ended)


def run_isolated(
    job: Job,
    logs: Path,
    *,
    stem: str = "",
    progress: Progress = lambda _: None,
    outcome: Outcome | None = None,
    door: Door | None = None,
) -> Outcome:
    """Run a "measure" job with every implementation in a process of its own; see runner.run_job.

    door: of a device that the caller shares; the judge has it alone while it times. Should the judge itself fall while it
    deals with a candidate, everything starts again without that one. So it does when optional inputs have ended a candidate's
    process: these are not tried on it again.
    """
    outcome = outcome if outcome is not None else Outcome()
    subjects = list(job.subjects)
    while True:
        told, fallen = len(outcome.events), dict(outcome.fallen)
        follower, ended, log = _sitting(job, subjects, logs, stem or job.mode, progress, outcome, door)
        spared = [event for event in follower.events if event.kind == "spared"]
        if spared:
            # What was found meanwhile is found again.
            del outcome.events[told:]
            outcome.fallen.clear()
            outcome.fallen.update(fallen)
            subjects = [subject for subject in subjects if subject.name not in outcome.fallen]
            job = _sparing(job, spared)
            if len(subjects) > 1:
                continue
        if any(event.kind == "done" for event in follower.events):
            outcome.finished = True
            return outcome
        check_room(ended, log)
        culprit = blame(follower, ended, subjects, msgspec.structs.replace(job, memory=0), outcome, SLACK)
        if culprit is None:
            return outcome
        subjects = [subject for subject in subjects if subject.name not in outcome.fallen]
        if culprit.role == "reference" or len(subjects) < 2:
            return outcome


def _sparing(job: Job, spared: Sequence[Event]) -> Job:
    """The job with the inputs that ended a candidate's process left out for it."""
    known = {name: dict(of) for name, of in job.spared.items()}
    for event in spared:
        known.setdefault(event.impl, {})[str(event.data["input"])] = str(event.data["what"])
    return msgspec.structs.replace(job, spared=known)


@dataclass(frozen=True)
class _Names:
    """The files of one start in the logs directory."""

    logs: Path
    stem: str

    def of(self, what: str, name: str = "") -> Path:
        return self.logs / f"{self.stem}{f'-{name}' if name else ''}.{what}"


def _sitting(
    job: Job,
    subjects: Sequence[Subject],
    logs: Path,
    stem: str,
    progress: Progress,
    outcome: Outcome,
    door: Door | None = None,
) -> tuple[JudgeFollower, process.Exit, Path]:
    """One judge and its candidates from start to end."""
    number = sum(1 for argv, _, _ in outcome.exits if any(word.endswith("events.jsonl") for word in argv))
    names = _Names(logs, f"{stem}-{number + 1}" if number else stem)
    follower = JudgeFollower(names.of("events.jsonl"), {**LIMITS, **job.limits}, progress, outcome.known)
    with _private_directory() as folder, contextlib.ExitStack() as stack:
        lines = _Lines(subjects, door)
        stack.callback(lines.close)
        scratch = Path(stack.enter_context(temporary()))
        candidates = [subject for subject in subjects if subject.role != "reference"]
        reference = next(Path(subject.file) for subject in subjects if subject.role == "reference")
        children = [_child(job, s, reference, (folder, scratch), lines, names, follower, progress) for s in candidates]
        judge = msgspec.structs.replace(
            job,
            mode="judge",
            subjects=list(subjects),
            channels=dict(lines.judges),
            door=list(lines.door),
            marks={child.subject.name: child.mark for child in children},
            exchange=str(folder),
        )
        write_job(judge, names.of("job.json"))
        argv, log = command(names.of("job.json"), names.of("events.jsonl")), names.of("log")
        stack.callback(_dismiss, children, outcome)
        ended: process.Exit | None = None
        try:
            for child in children:
                child.start()
            ended = process.run(
                argv,
                log=log,
                env=_environment(scratch),
                watch=follower,
                hand_over=lines.give_judges(),
            )
            follower(ended.wall)
            outcome.exits.append((argv, ended, log))
        finally:
            outcome.events += follower.events
            _take_leave(children, patience=_FAREWELL if ended is not None else 0.0)
            if door is not None:
                # Of a judge that ended in its turn, what it held is held by this process as well.
                door.leave()
    for child in children:
        if child.error is not None:
            raise child.error
    return follower, ended, log


class _Lines:
    """A pair of connected sockets for every candidate, and a door's descriptors, to hand over."""

    def __init__(self, subjects: Sequence[Subject], door: Door | None) -> None:
        self.door = [os.dup(door.main), os.dup(door.gate)] if door is not None else []
        self.judges: dict[str, int] = {}
        self.candidates: dict[str, int] = {}
        for subject in subjects:
            if subject.role != "reference":
                one, other = socket.socketpair()
                self.judges[subject.name], self.candidates[subject.name] = one.detach(), other.detach()

    def give_judges(self) -> list[int]:
        given = [*self.judges.values(), *self.door]
        self.judges, self.door = {}, []
        return given

    def close(self) -> None:
        """Close the descriptors that were not handed over."""
        for line in [*self.judges.values(), *self.candidates.values(), *self.door]:
            os.close(line)


def _child(
    job: Job,
    subject: Subject,
    reference: Path,
    folders: tuple[Path, Path],
    lines: _Lines,
    names: _Names,
    follower: JudgeFollower,
    progress: Progress,
) -> Child:
    """The process of one candidate, not started yet. Its job names neither reference nor seed.

    folders: for tensors, and for what it leaves in TMPDIR.
    """
    place = folders[0] / subject.name
    place.mkdir(mode=0o700)
    # Beside the folders that candidates write into.
    code = folders[1] / "code" / subject.name
    line = lines.candidates.pop(subject.name)
    mine = msgspec.structs.replace(
        job,
        mode="candidate",
        subjects=[msgspec.structs.replace(subject, file=str(stage(subject, reference, code)), content=b"")],
        seeds=[],
        spared={},
        trials=0,
        timings="",
        channels={subject.name: line},
        exchange=str(place),
    )
    file = names.of("job.json", subject.name)
    write_job(mine, file)
    return Child(
        mine, command(file, Path(os.devnull)), names.of("log", subject.name), line, follower, progress, folders[1]
    )


def stage(subject: Subject, reference: Path, place: Path) -> Path:
    """A folder for a candidate with its neighbours but no reference; its file as at the start.

    This keeps a candidate from importing the reference by accident, not from looking for it.
    """
    source = Path(subject.file)
    place.mkdir(parents=True, mode=0o700)
    try:
        for entry in source.parent.iterdir():
            if entry.name not in (reference.name, source.name, "__pycache__"):
                (place / entry.name).symlink_to(entry.resolve())
        if subject.content:
            (place / source.name).write_bytes(subject.content)
            return place / source.name
        return Path(shutil.copy(source, place / source.name))
    except OSError as error:
        raise unwritable(place, error) from error


@contextlib.contextmanager
def _private_directory() -> Iterator[Path]:
    """A directory for tensors that only this user can enter; in memory when there is room."""
    shared = Path("/dev/shm")
    roomy = os.access(shared, os.W_OK) and shutil.disk_usage(shared).free >= _ROOM
    with temporary(shared if roomy else None) as name:
        yield Path(name)


def _take_leave(children: Sequence[Child], patience: float) -> None:
    """Wait `patience` seconds for the candidates to end after the judge has, then kill them."""
    for child in children:
        child.closing.set()
    end = time.monotonic() + patience
    for child in children:
        if child.ident is not None:
            child.join(max(0.0, end - time.monotonic()))
            child.over.set()


def _dismiss(children: Sequence[Child], outcome: Outcome) -> None:
    """Wait for the candidates' ends and note what became of them."""
    for child in children:
        child.over.set()
        if child.ident is None:
            os.close(child.line)
            continue
        child.join()
        if child.ended is not None:
            outcome.exits.append((child.argv, child.ended, child.log))
            if child.fallen is not None:
                outcome.fallen[child.subject.name] = child.fallen
