"""Whether a process that does not answer hangs or has a reason: a compiler, or contention."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

_COMPILERS = frozenset(
    [
        "nvcc",
        "cicc",
        "ptxas",
        "fatbinary",
        "nvlink",
        "cudafe++",
        "cc1",
        "cc1plus",
        "c++",
        "g++",
        "gcc",
        "clang",
        "clang++",
        "as",
        "ld",
        "lld",
        "collect2",
        "ninja",
    ]
)
_STEP = 2.0
_STARVED = 0.5
"""A process that wants to run and has had less than this share of a core is not the one that is slow."""
_MOST_STARVED = 4.0
"""Times a limit that a starved process may take."""


_LONGEST = 1 << 14
"""Bytes of a file of a process's that are read: what is asked for stands before."""


class Excuse:
    """The limit of one wait, and whether it is extended. process: awaited one, 0 if not known."""

    def __init__(self, process: int, limit: float, most: float) -> None:
        self._process = process
        self._began = time.monotonic()
        self._end = self._began + limit
        self._limit, self._most = limit, max(most, limit)
        self._burnt = seconds_of(process)

    def left(self) -> float:
        """Seconds until somebody should look again."""
        return max(0.0, self._end - time.monotonic())

    def extend(self, seconds: float) -> None:
        """What passed because somebody else was let go first is none of its time."""
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
        return state_of(self._process) == "R" and seconds_of(self._process) - self._burnt < _STARVED * waited


def compiling(process: int) -> bool:
    """Whether some descendant of the process is a compiler that runs, or waits for its disk."""
    return any(_is_compiler(pid) and state_of(pid) in "RD" for pid in descendants(process)) if process else False


def descendants(process: int) -> list[int]:
    """Children, their children and so on; empty where the kernel does not list them."""
    found: list[int] = []
    todo = [process]
    while todo:
        tasks = f"/proc/{todo.pop()}/task"
        with contextlib.suppress(OSError):
            for task in os.listdir(tasks):
                with contextlib.suppress(OSError), open(f"{tasks}/{task}/children", "rb") as stream:
                    more = [int(word) for word in stream.read().split()]
                    found += more
                    todo += more
    return found


def _is_compiler(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return False
    name = os.path.basename(words[0])
    return any(name == one or name.endswith(f"-{one}") for one in _COMPILERS) or any(
        "compile_worker" in w for w in words
    )


def state_of(pid: int) -> str:
    """R, S, D, Z, ... of a process; " " when it is gone."""
    fields = _stat(pid)
    return fields[0] if fields else " "


def parent_of(pid: int) -> int:
    """0 when it is gone."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def seconds_of(pid: int) -> float:
    """CPU seconds a process has used; 0 when it is gone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _stat(pid: int) -> list[str]:
    text = _of(pid, "stat")
    return text[text.rindex(")") + 2 :].split() if text else []


def _of(pid: int, name: str) -> str:
    """Contents of a file in /proc; empty when it is gone.

    Without a stream: a judge looks at each neighbour after each answer.
    """
    try:
        file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(file, _LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(file)
