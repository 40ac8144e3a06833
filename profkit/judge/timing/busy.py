"""Contention on this machine: a difference that load explains accuses no candidate."""

from __future__ import annotations

import os
import time
from pathlib import Path

_PRESSED = 0.05
"""Share of the time in which some task waited for a core, below which the machine was free."""
_ROUGH = 1.5


class Watch:
    """Waiting time of tasks and the run queue since construction, sampled by `look`."""

    def __init__(self) -> None:
        self._began, self._waited = time.monotonic(), _waited()
        self._queue: list[int] = []

    def look(self) -> None:
        self._queue.append(_running())

    @property
    def pressure(self) -> float:
        """Share of the time in which some task waited for a core; NaN where the kernel does not say."""
        passed = time.monotonic() - self._began
        return (_waited() - self._waited) / passed if passed > 0 else float("nan")

    @property
    def slower(self) -> float:
        """Possible slow-down by load; 1 on a free machine."""
        self.look()
        queue = sum(self._queue) / len(self._queue)
        crowded = _ROUGH * queue / _cores()
        pressure = self.pressure
        if pressure < _PRESSED:
            return 1.0
        return max(1.0, crowded, 1.0 + pressure if pressure == pressure else 1.0)

    def said(self) -> str:
        pressure = self.pressure
        share = f" {pressure:.0%}" if pressure == pressure else ""
        queue = sum(self._queue) / max(1, len(self._queue))
        return f"CPU contention{share} ({queue:.3g} runnable tasks on {_cores()} cores)"


def unsure(what: str, how_much: str) -> dict[str, str]:
    """The caveat about a difference that load may explain."""
    return {"what": what, "how_much": how_much, "fix": "measure again when nothing else runs", "code": "busy"}


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _waited() -> float:
    """Total seconds in which some task waited for a core; NaN where the kernel does not say."""
    try:
        first = Path("/proc/pressure/cpu").read_text("ascii").splitlines()[0]
        return int(first.rpartition("total=")[2]) * 1e-6
    except (OSError, ValueError, IndexError):
        return float("nan")


def _running() -> int:
    """Runnable tasks; 1 where the kernel does not say."""
    try:
        return max(1, int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[0]))
    except (OSError, ValueError, IndexError):
        return 1
