"""Judges that share the device, and CPU contention.

A judge shares the device while preparing and locks it while timing. Between calls, with the device idle, it yields to
a judge that waits to time. It releases its share before candidates are imported, while the host draws data, and at
the end.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from profkit.guest import facts
from profkit.launch.alone import Door
from profkit.launch.protocol import Events

_PRESSED = 0.05
"""Share of time with a task waiting for a core below which the machine counts as free."""
_ROUGH = 1.5
"""Factor on the fair share of a core: the queue is sampled between calls, and other work also takes caches and DRAM."""


class Company:
    """This judge's share of the device. door: lock of the device; None: no waiting."""

    def __init__(self, door: Door | None, device: torch.device, events: Events) -> None:
        self._door = door
        self._device, self._events = device, events
        self._here, self._waited = False, 0.0
        self.leave()

    def clock(self) -> float:
        """Seconds, without time spent waiting for other judges."""
        return time.monotonic() - self._waited

    def join(self) -> None:
        """Share the device with other judges from now on."""
        if self._door is not None:
            self._wait_at(self._door.share)
            self._here = True

    def leave(self) -> None:
        """Release the share of the device."""
        if self._door is not None:
            self._here = False
            self._door.leave()

    @property
    def wanted(self) -> bool:
        """Whether another judge waits to lock the device."""
        return self._here and self._door is not None and self._door.wanted

    def step_aside(self) -> None:
        """Let a waiting judge time; this process is idle meanwhile."""
        if self.wanted and self._door is not None:
            facts.settle(self._device)
            self._wait_at(self._door.share)

    def apart(self) -> contextlib.AbstractContextManager[None]:
        """Release the share inside the block, which uses only the host."""
        return self._instead(self.leave) if self._here else contextlib.nullcontext()

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Lock the device inside the block."""
        door = self._door
        return contextlib.nullcontext() if door is None else self._instead(lambda: self._wait_at(door.turn))

    @contextlib.contextmanager
    def _instead(self, act: Callable[[], None]) -> Iterator[None]:
        """Wait for an idle device, then hold it by `act` inside the block instead of sharing it."""
        facts.settle(self._device)
        self._here = False
        act()
        try:
            yield
        finally:
            self.join()

    def _wait_at(self, go: Callable[[Callable[[], None]], None]) -> None:
        """Wait, then announce the interrupted phase again."""
        before, began = self._events.doing, time.monotonic()
        go(lambda: self._events.phase("wait"))
        self._waited += time.monotonic() - began
        if self._events.doing is not before and before is not None:
            self._events.resume(before)


class Watch:
    """Waiting time of tasks and the run queue since construction, sampled by `look`."""

    def __init__(self) -> None:
        self._began, self._waited = time.monotonic(), _waited()
        self._queue: list[int] = []

    def look(self) -> None:
        self._queue.append(_running())

    @property
    def pressure(self) -> float:
        """Share of time with a task waiting for a core; NaN if the kernel does not report it."""
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
        share = f" {pressure:.0%} of the time" if pressure == pressure else ""
        queue = sum(self._queue) / max(1, len(self._queue))
        return f"CPU contention{share} ({queue:.3g} runnable tasks on {_cores()} cores)"


def unsure(what: str, how_much: str) -> dict[str, str]:
    """Caveat about a difference that load may explain."""
    return {"what": what, "how_much": how_much, "fix": "measure again on an idle machine", "code": "busy"}


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _waited() -> float:
    """Total seconds with a task waiting for a core; NaN if the kernel does not report it."""
    try:
        first = Path("/proc/pressure/cpu").read_text("ascii").splitlines()[0]
        return int(first.rpartition("total=")[2]) * 1e-6
    except (OSError, ValueError, IndexError):
        return float("nan")


def _running() -> int:
    """Runnable tasks; 1 if the kernel does not report it."""
    try:
        return max(1, int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[0]))
    except (OSError, ValueError, IndexError):
        return 1
