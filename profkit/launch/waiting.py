"""Decide whether a silent process hangs, compiles, or waits for a core."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

import psutil

_COMPILER = re.compile(
    r"(.*-)?(nvcc|cicc|ptxas|fatbinary|nvlink|cudafe\+\+|cc1|cc1plus|c\+\+|g\+\+|gcc|clang|clang\+\+|as|ld|lld|collect2|ninja)"
)
_STEP = 2.0
_STARVED = 0.5
"""Share of a core below which a process that wants to run is starved, not slow."""
_MOST_STARVED = 4.0
"""Factor on the limit of a starved process."""


class Excuse:
    """The limit of one wait, and its extension. process: the awaited one, 0 if unknown."""

    def __init__(self, process: int, limit: float, most: float) -> None:
        self._process = process
        self._began = time.monotonic()
        self._end = self._began + limit
        self._limit, self._most = limit, max(most, limit)
        self._burnt = seconds_of(process)

    def left(self) -> float:
        """Seconds until the next check."""
        return max(0.0, self._end - time.monotonic())

    def extend(self, seconds: float) -> None:
        """Add seconds in which the process was paused for another."""
        self._began += seconds
        self._end += seconds

    def more(self) -> bool:
        """Whether to wait on: a compiler works for the process, or contention keeps it from running."""
        waited = time.monotonic() - self._began
        if waited < self._most and compiling(self._process):
            # What was compiled has to be called yet.
            self._end = time.monotonic() + self._limit
            return True
        if waited < _MOST_STARVED * self._limit and self._starved(waited):
            self._end = time.monotonic() + min(_STEP, max(0.05, self._limit))
            return True
        return False

    def _starved(self, waited: float) -> bool:
        return (
            state_of(self._process) == psutil.STATUS_RUNNING
            and seconds_of(self._process) - self._burnt < _STARVED * waited
        )


def compiling(process: int) -> bool:
    """Whether a descendant of the process is a compiler that runs or waits for I/O."""
    busy = psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP
    return bool(process) and any(_is_compiler(pid) and state_of(pid) in busy for pid in descendants(process))


def descendants(process: int) -> list[int]:
    """All descendants, by the kernel's lists; without these by a walk through /proc."""
    found = [process]
    if not os.path.exists("/proc/thread-self/children"):
        with contextlib.suppress(psutil.Error):
            found += [one.pid for one in psutil.Process(process).children(recursive=True)]
        return found[1:]
    for pid in found:
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, file.read_text("ascii").split())
    return found[1:]


def _is_compiler(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        words = psutil.Process(pid).cmdline() or [""]
        return bool(_COMPILER.fullmatch(os.path.basename(words[0]))) or any("compile_worker" in word for word in words)
    return False


def state_of(pid: int) -> str:
    """psutil's name of its state; "" if it has ended."""
    with contextlib.suppress(psutil.Error):
        return str(psutil.Process(pid).status())
    return ""


def seconds_of(pid: int) -> float:
    """CPU seconds of a process; 0 if it has ended."""
    with contextlib.suppress(psutil.Error):
        return float(sum(psutil.Process(pid).cpu_times()[:2]))
    return 0.0
