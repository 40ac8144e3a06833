"""Sharing of the device between judges: beside others while preparing, alone while timing.

Between calls, with the device idle, a judge yields to one that waits to time. It gives up its share before candidates
are imported, while the host draws data, and at the end.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import torch

from profkit.guest import facts
from profkit.launch.alone import Door
from profkit.launch.protocol import Events


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

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Give up the share inside the block, which uses the host alone."""
        if not self._here:
            yield
            return
        facts.settle(self._device)
        self.leave()
        try:
            yield
        finally:
            self.join()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Have the device alone inside the block."""
        if self._door is None:
            yield
            return
        facts.settle(self._device)
        self._here = False
        self._wait_at(self._door.turn)
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
