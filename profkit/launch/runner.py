"""Start the runner, follow its events, and start it again without whatever brought it down."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from profkit.errors import ProfkitError
from profkit.launch import process
from profkit.launch.environment import environment
from profkit.launch.protocol import BARE, CANNOT_WRITE, DOING, LIMITS, Event, Job, Subject
from profkit.rundir.files import ROOM, temporary, unwritable

Prefix = Sequence[str]
Progress = Callable[[str], None]


@dataclass
class Outcome:
    """What one or more starts of the runner gave, in the order it happened.

    `fallen`: implementation -> (status, reason, last lines) for those that brought the runner down. `known`: called with the
    events so far when everything has been timed or is wrong, before it is stressed.
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


class Follower:
    """Reader of the child's events, with the moment by which the next one is due.

    `limit`: the seconds that the phase it is in may take.
    """

    def __init__(
        self,
        path: Path,
        limits: Mapping[str, float],
        progress: Progress,
        known: Callable[[Sequence[Event]], None] = lambda _: None,
    ) -> None:
        self._path = path
        self._offset = 0
        self._progress, self._known = progress, known
        self._told: set[tuple[str, str]] = set()
        self._deadline = self.limit = limits["start"]
        self.events: list[Event] = []

    def __call__(self, elapsed: float) -> float:
        for event in self._new():
            self.events.append(event)
            if event.kind == "phase":
                self._deadline, self.limit = elapsed + event.limit, event.limit
                if (event.impl, event.phase) not in self._told:
                    self._told.add((event.impl, event.phase))
                    self._progress(f"{DOING.get(event.phase, event.phase)} {event.impl}".strip())
            elif event.kind == "timing" or (event.kind == "checked" and not event.data["sound"]):
                self._known([*self.events])
        return self._deadline

    def _new(self) -> Iterable[Event]:
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                yield msgspec.json.decode(line, type=Event)

    @property
    def where(self) -> tuple[str, str]:
        """(implementation, phase) the child was in when it was last heard of."""
        last = next((event for event in reversed(self.events) if event.kind == "phase"), None)
        return (last.impl, last.phase) if last else ("", "start")


def command(job: Path, events: Path) -> list[str]:
    """The runner's command line."""
    return [*BARE, "profkit.judge", str(job), str(events)]


def planned(logs: Path, stem: str, prefix: Prefix = ()) -> list[str]:
    """The command line with which `run_job` starts the runner first."""
    return [*prefix, *command(logs / f"{stem}.job.json", logs / f"{stem}.events.jsonl")]


def run_job(
    job: Job,
    logs: Path,
    *,
    stem: str = "",
    prefix: Prefix = (),
    env: Mapping[str, str] | None = None,
    progress: Progress = lambda _: None,
    outcome: Outcome | None = None,
    restart: bool = True,
) -> Outcome:
    """Run `job`, again without the culprit when a candidate crashes or hangs the process.

    At most one start a subject, and one in all without `restart`; events of an interrupted start count, so nothing
    measured is lost. Give an `outcome` to be filled to have them after an exception as well. stem: what the files in
    `logs` are called, the job's mode unless given.
    """
    outcome = outcome if outcome is not None else Outcome()
    subjects = list(job.subjects)
    while True:
        number = len(outcome.exits)
        name = f"{stem or job.mode}-{number + 1}" if number else stem or job.mode
        follower, ended, log, argv = _start(job, subjects, logs, name, prefix, env, progress, outcome)
        outcome.exits.append((argv, ended, log))
        if any(event.kind == "done" for event in follower.events):
            outcome.finished = True
            return outcome
        check_room(ended, log)
        culprit = blame(follower, ended, subjects, job, outcome)
        if culprit is None:
            return outcome
        progress(f"{culprit.name}: {outcome.fallen[culprit.name][1]}")
        subjects.remove(culprit)
        if culprit.role == "reference" or not subjects or not restart:
            return outcome


def blame(
    follower: Follower, ended: process.Exit, subjects: Sequence[Subject], job: Job, outcome: Outcome, slack: float = 0.0
) -> Subject | None:
    """The implementation at work when the runner ended, noted as fallen; None without one.

    slack: seconds that it had beyond the limit of the phase.
    """
    name, phase = follower.where
    corrupt = next((event for event in follower.events if event.kind == "corrupt"), None)
    # In a candidate's turn the reference is called too.
    name = corrupt.impl if corrupt is not None else name
    culprit = next((subject for subject in subjects if subject.name == name), None)
    if culprit is not None:
        limit = follower.limit + slack if ended.hung else None
        found = verdict(phase, ended, limit, job.memory)
        if corrupt is not None:
            found = "corrupt", str(corrupt.data.get("reason", "")), ended.tail
        outcome.fallen.setdefault(name, found)
        # The others are checked afresh, on inputs of other seeds.
        again = {subject.name for subject in subjects} - set(outcome.fallen)
        outcome.events[:] = [e for e in outcome.events if e.kind not in ("check", "fragile") or e.impl not in again]
    return culprit


def _start(
    job: Job,
    subjects: Sequence[Subject],
    logs: Path,
    stem: str,
    prefix: Prefix,
    env: Mapping[str, str] | None,
    progress: Progress,
    outcome: Outcome,
) -> tuple[Follower, process.Exit, Path, list[str]]:
    argv = planned(logs, stem, prefix)
    job_file, events, log = Path(argv[-2]), Path(argv[-1]), logs / f"{stem}.log"
    write_job(msgspec.structs.replace(job, subjects=list(subjects)), job_file)
    follower = Follower(events, {**LIMITS, **job.limits}, progress, outcome.known)
    try:
        with temporary() as place:
            told = environment({"TMPDIR": place, **(env or {})})
            ended = process.run(argv, log=log, env=told, watch=follower, memory=job.memory)
        follower(ended.wall)
    finally:
        outcome.events += follower.events
    return follower, ended, log, argv


def write_job(job: Job, file: Path) -> None:
    """Write what a runner has to do. Raises ProfkitError."""
    try:
        file.write_bytes(msgspec.json.encode(job))
    except OSError as error:
        raise unwritable(file, error) from error


def check_room(ended: process.Exit, log: Path) -> None:
    """Raise ProfkitError when the runner could not write: no implementation is to blame."""
    if ended.code != CANNOT_WRITE:
        return
    last = next((line for line in reversed(ended.tail.splitlines()) if line.startswith("cannot write ")), "")
    if last:
        raise ProfkitError(f"{last}; see {log}", fix=ROOM)


def verdict(phase: str, ended: process.Exit, limit: float | None, memory: int) -> tuple[str, str, str]:
    """(status, reason, last lines) of a process that ended in `phase`.

    limit: the seconds at which it was killed, None if it was not.
    """
    if ended.memory:
        have, may = (f"{size / 2**30:.3g} GiB" for size in (ended.memory, memory))
        return "memory-limit", f"{have} of host memory in {phase}, the limit is {may}; killed", ended.tail
    if limit is not None:
        return "hang", f"no end of {phase} after {limit:g} s; killed", ended.tail
    how = f"killed by {ended.signal}" if ended.signal else f"ended the process with exit code {ended.code}"
    return "crash", f"{how} during {phase}", ended.tail
