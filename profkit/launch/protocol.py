"""Messages between parent and child: one job file in, one file of JSON lines out.

The parent writes a `Job`; the child appends `Event` lines to a file that the parent follows. A file survives every way
a child can die and passes through `ncu` unchanged; a pipe would not.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil

from profkit.rundir.files import unwritable, write_atomic


class Subject(msgspec.Struct, frozen=True):
    """One implementation to run: the reference or a candidate.

    content: the file at the start of the run, b"" for its current content.
    """

    name: str
    role: str
    file: str
    backend: str = ""
    content: bytes = b""


class Job(msgspec.Struct):
    """Work for the child.

    mode: "measure" (check and time), "judge" (the same, each candidate in its own process), "candidate" (that process),
    "counters" (one annotated call each, under ncu), "perturb" (time under changed conditions), "sanitize" (one call of
    each candidate, under compute-sanitizer) or "build" (only one candidate's extensions). device: "auto", "cuda" or
    "cpu". seeds: one per correctness trial. limits: seconds per phase. budget: seconds of timing. target: relative
    half-width of the median's interval to reach. clear: end timing on a CPU early if every round differs from the
    reference by this fraction; 0: never.
    shapes: also time get_more_inputs(). backward: also compare and time gradients; a task may request it too.
    precision: cast floating inputs and weights to it, "" for no cast. model_mode: "train" (modules as constructed) or
    "eval"; "": the sample's, else eval. memory: host bytes of the process (with a judge: of each candidate's), 0 for no
    limit; the parent enforces it. trust: put no walls up. again: these passed in another process, which reported
    `probe`: compare once, time. lines: build with line tables. campaign: do not rebuild sources that failed to compile
    in this campaign; "": none. shared: name of a device shared except while timing or counting (alone.named).

    With separate processes: channels: socket descriptor of each candidate (in its own job: to the judge). exchange:
    directory for transferred tensors. trials: number of seeds to draw once candidates are loaded.
    """

    mode: str
    sample: str
    subjects: list[Subject]
    device: str = "auto"
    seeds: list[int] = []
    budget: float = 5.0
    target: float = 0.005
    clear: float = 0.0
    l2: str = "cold"
    timings: str = ""
    cache: str = ""
    limits: dict[str, float] = {}
    precision: str = ""
    model_mode: str = ""
    channels: dict[str, int] = {}
    shared: str = ""
    exchange: str = ""
    trials: int = 0
    memory: int = 0
    trust: bool = False
    shapes: bool = False
    backward: bool = False
    again: bool = False
    lines: bool = False
    probe: dict[str, Any] = {}
    campaign: str = ""


class Event(msgspec.Struct, omit_defaults=True):
    """One line from the child.

    kind: facts, work, ceilings, caveat, impl, check, timing, done; allowed (precisions that the sample names), task
    (types of inputs, weights, outputs), inputs (in words), probe (trivial answers that pass), served (shares of calls
    by shape), phase (next event due in `limit` seconds), checked (names to be timed), fragile (an unusual input with a
    wrong answer), note (a remark), load (contention), perturbed (seconds by condition), operators (of a call), shape
    and pass (also timed), corrupt (CUDA context lost). From a judge also seeds, lost (a candidate's process ended),
    overdue (no answer in time, kill it). `data` depends on the kind. `at`: seconds since the process began.
    """

    kind: str
    impl: str = ""
    phase: str = ""
    limit: float = 0.0
    at: float = 0.0
    data: dict[str, Any] = {}


class Events:
    """Writer of the events file; each line is one write, so the parent never reads part of it."""

    def __init__(self, path: Path, limits: Mapping[str, float]) -> None:
        self._path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._limits = {**LIMITS, **limits}
        self.doing: Event | None = None
        self._began = psutil.Process().create_time()

    def send(self, kind: str, impl: str = "", **data: Any) -> None:
        """Write an event."""
        self._write(Event(kind=kind, impl=impl, data=data))

    def phase(self, name: str, impl: str = "", *, factor: float = 1.0, least: float = 0.0) -> None:
        """Announce a phase; its limit is scaled by `factor` and at least `least` seconds."""
        limit = float(max(self._limits.get(name, 60.0) * factor, least))
        self.resume(Event(kind="phase", impl=impl, phase=name, limit=limit))

    def resume(self, phase: Event) -> None:
        """Announce an earlier phase again."""
        self.doing = phase
        self._write(phase)

    def _write(self, event: Event) -> None:
        stamped = msgspec.structs.replace(event, at=round(time.time() - self._began, 3))
        line = msgspec.json.encode(stamped) + b"\n"
        try:
            written = os.write(self._handle, line)
        except OSError as error:
            raise unwritable(self._path, error) from error
        if written < len(line):
            raise unwritable(self._path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


BARE = [sys.executable, *(("-P",) if sys.version_info >= (3, 11) else ()), "-m"]
"""Start of a child's command line; nothing is imported from its working directory (before Python 3.11 the
runner ensures that itself).
"""


def command(job: Path, events: Path) -> list[str]:
    """The runner's command line."""
    return [*BARE, "profkit.judge", str(job), str(events)]


def write_job(job: Job, file: Path) -> None:
    """Write a job file atomically; a runner started ahead waits for it. Raises ProfkitError."""
    write_atomic(file, msgspec.json.encode(job))


AHEAD = "PROFKIT_AHEAD"
"""Variable of a process that waits for its job file."""
CANNOT_WRITE = 74
"""Exit code of a child that could not write its results (EX_IOERR); its last line says why."""

PHASES = {
    "start": (120.0, "", "the start of its process"),
    "load": (60.0, "loading", "the loading of its file"),
    "build": (600.0, "building", "its build"),
    "first": (60.0, "first call of", "its first call"),
    "check": (60.0, "checking", "a call that is checked"),
    "work": (60.0, "running", "a call"),
    "ceilings": (60.0, "measuring what this machine can do", "the measuring of ceilings"),
    "time": (60.0, "timing", "a timed call"),
    "count": (120.0, "calling for the counters", "its call for the counters"),
    "sanitize": (300.0, "sanitizing", "its call under the sanitizer"),
    "wait": (24 * 3600.0, "waiting for others on the device", "the wait for the device"),
}
"""Phase -> limit [s], progress text before the implementation's name, and name of the phase in errors."""

LIMITS = {phase: limit for phase, (limit, _, _) in PHASES.items()}
"""Seconds per phase before the child counts as hung; `--time-limit` scales first, check, time and count. "first" is
an implementation's first call; while it compiles, the limit is that of "build".
"""

PATIENT = 20.0
"""A later step of an implementation may take this many times its first call, if longer than the limit."""
BEHIND = 10
"""Niceness of builds ahead and of reports, so that measurements have priority."""

Progress = Callable[[str], None]
Known = Callable[[Sequence[Event]], None]


@dataclass(frozen=True)
class Files:
    """Files of one start in the logs directory."""

    logs: Path
    stem: str

    def of(self, what: str, name: str = "") -> Path:
        return self.logs / f"{self.stem}{f'-{name}' if name else ''}.{what}"

    @property
    def argv(self) -> list[str]:
        return command(self.of("job.json"), self.of("events.jsonl"))


class Follower:
    """Reader of the child's events, with the time by which the next one is due.

    `limit`: seconds for its phase; slack: extra seconds. `overdue`: candidate -> (phase, limit); `lost`: candidate ->
    phase.
    """

    def __init__(self, path: Path, job: Job, progress: Progress, known: Known, slack: float) -> None:
        self._path, self._offset = path, 0
        self._progress, self._known = progress, known
        self._told: set[tuple[str, str]] = set()
        self._deadline = self.limit = {**LIMITS, **job.limits}["start"]
        self.slack = slack
        self.events: list[Event] = []
        self.overdue: dict[str, tuple[str, float]] = {}
        self.lost: dict[str, str] = {}
        self.staged: dict[str, str] = {}
        """Folder of a candidate's copy -> the user's folder, for messages."""

    def __call__(self, elapsed: float) -> float:
        for event in self._new():
            self.events.append(event)
            if event.kind == "phase":
                self._deadline, self.limit = elapsed + event.limit, event.limit
                if (event.impl, event.phase) not in self._told:
                    self._told.add((event.impl, event.phase))
                    self._progress(f"{PHASES[event.phase][1]} {event.impl}".strip())
            elif event.kind == "overdue":
                self.overdue[event.impl] = (str(event.data["phase"]), float(event.data["limit"]))
            elif event.kind == "lost":
                self.lost[event.impl] = str(event.data["phase"])
            elif event.kind == "timing" or (event.kind == "checked" and not event.data["sound"]):
                self._known([*self.events])
        return self._deadline + self.slack

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
                event = msgspec.json.decode(line, type=Event)
                if event.kind == "impl":
                    event.data |= {key: self.theirs(one) for key, one in event.data.items() if isinstance(one, str)}
                yield event

    def theirs(self, text: str) -> str:
        """Replace the copy's path by the user's file in a message."""
        for copy, own in self.staged.items():
            text = text.replace(copy, own)
        return text

    def last(self, name: str | None = None) -> Event:
        """The last phase, of any implementation by default."""
        told = (event for event in reversed(self.events) if event.kind == "phase" and name in (None, event.impl))
        return next(told, Event("phase", phase="start"))
