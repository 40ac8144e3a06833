"""Others on this machine: judges that share the device, and contention.

A judge is beside others while preparing, and alone while timing.

Between calls, with the device idle, a judge yields to one that waits to time. It gives up its share before candidates
are imported, while the host draws data, and at the end.
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
"""Share of the time in which some task waited for a core, below which the machine was free."""
_ROUGH = 1.5


class Company:
    """This judge's share of the device. door: of the device; without one nothing waits."""

    def __init__(self, door: Door | None, device: torch.device, events: Events) -> None:
        self._door = door
        self._device, self._events = device, events
        self._here, self._waited = False, 0.0
        self.leave()

    def clock(self) -> float:
        """Seconds without waiting for others."""
        return time.monotonic() - self._waited

    def join(self) -> None:
        """Share the device with others from now on."""
        if self._door is not None:
            self._wait_at(self._door.share)
            self._here = True

    def leave(self) -> None:
        """Give up the share of the device."""
        if self._door is not None:
            self._here = False
            self._door.leave()

    @property
    def wanted(self) -> bool:
        """Whether another judge waits to have the device alone."""
        return self._here and self._door is not None and self._door.wanted

    def step_aside(self) -> None:
        """Let a waiting judge time; nothing runs here meanwhile."""
        if self.wanted and self._door is not None:
            facts.settle(self._device)
            self._wait_at(self._door.share)

    def apart(self) -> contextlib.AbstractContextManager[None]:
        """Give up the share inside the block, which uses the host alone."""
        return self._instead(self.leave) if self._here else contextlib.nullcontext()

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Have the device alone inside the block."""
        door = self._door
        return contextlib.nullcontext() if door is None else self._instead(lambda: self._wait_at(door.turn))

    @contextlib.contextmanager
    def _instead(self, act: Callable[[], None]) -> Iterator[None]:
        """Have the device idle, then in another way than sharing it inside the block."""
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
        share = f" {pressure:.0%} of the time" if pressure == pressure else ""
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
