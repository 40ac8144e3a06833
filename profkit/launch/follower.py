"""What a runner or judge does, by its events, and when the next one is due."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from profkit.launch.protocol import LIMITS, PHASES, Event, Job, command

Progress = Callable[[str], None]
Known = Callable[[Sequence[Event]], None]


@dataclass(frozen=True)
class Files:
    """The files of one start in the logs directory."""

    logs: Path
    stem: str

    def of(self, what: str, name: str = "") -> Path:
        return self.logs / f"{self.stem}{f'-{name}' if name else ''}.{what}"

    @property
    def argv(self) -> list[str]:
        return command(self.of("job.json"), self.of("events.jsonl"))


class Follower:
    """Reader of the child's events, with the moment by which the next one is due.

    `limit`: seconds for its phase; slack: seconds beyond. `overdue`: candidate -> (phase, limit); `lost`: candidate -> phase.
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
                yield msgspec.json.decode(line, type=Event)

    @property
    def where(self) -> tuple[str, str]:
        """(implementation, phase) the child was in when it was last heard of."""
        last = next((event for event in reversed(self.events) if event.kind == "phase"), None)
        return (last.impl, last.phase) if last else ("", "start")

    def phase_of(self, name: str) -> str:
        """The phase in which an implementation was last heard of."""
        return next((e.phase for e in reversed(self.events) if e.kind == "phase" and e.impl == name), "start")
