"""Events for the parent process, one JSON line each."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import psutil

from profkit.launch.protocol import LIMITS, Event
from profkit.rundir.files import unwritable


class Events:
    """Writer of the events file; each line is one write, so the parent never sees part of it."""

    def __init__(self, path: Path, limits: Mapping[str, float]) -> None:
        self._path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._limits = {**LIMITS, **limits}
        self.doing: Event | None = None
        self._caveats: list[tuple[str, dict[str, Any]]] = []
        self._began = psutil.Process().create_time()

    def send(self, kind: str, impl: str = "", **data: Any) -> None:
        """Write an event; a caveat that was sent before is not repeated."""
        if kind == "caveat":
            if (impl, data) in self._caveats:
                return
            self._caveats.append((impl, data))
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
