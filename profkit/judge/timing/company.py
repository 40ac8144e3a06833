"""The device as a judge shares it with the judges of other samples: beside them while it prepares, alone while it times.

It lets go of the device for one who waits to time between any two calls, when nothing of its own is at work there, and has no
part in it before its candidates are imported, while the host draws data, and when it is done.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import torch

from profkit.guest import facts
from profkit.judge.events import Events
from profkit.launch.alone import Door


class Company:
    """door: of the device, none where it is this judge's all along: then nothing here waits."""

    def __init__(self, door: Sequence[int], device: torch.device, events: Events) -> None:
        self._door = Door(*door) if door else None
        self._device, self._events = device, events
        self._here, self._waited = False, 0.0
        self.leave()

    def clock(self) -> float:
        """Seconds that pass but for those in which others were waited for."""
        return time.monotonic() - self._waited

    def join(self) -> None:
        """Use the device beside others from now on."""
        if self._door is not None:
            self._wait_at(self._door.share)
            self._here = True

    def leave(self) -> None:
        """Use it no more. Whoever stood for this measurement before may have fallen while it had it alone."""
        if self._door is not None:
            self._here = False
            self._door.leave()

    @property
    def wanted(self) -> bool:
        """Whether somebody waits to have the device alone while this one shares it."""
        return self._here and self._door is not None and self._door.wanted

    def step_aside(self) -> None:
        """Let those time who wait for it: here nothing runs, and candidates stand still."""
        if self.wanted and self._door is not None:
            facts.settle(self._device)
            self._wait_at(self._door.share)

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Have no part in it in the block, in which this measurement is at work on the host alone: others may time meanwhile."""
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
        """Have the device alone in the block. When that begins and ends is told, in seconds since 1970."""
        if self._door is None:
            yield
            return
        facts.settle(self._device)
        self._here = False
        self._wait_at(self._door.turn)
        began = time.time()
        try:
            yield
        finally:
            self._events.send("alone", began=began, ended=time.time())
            self.join()

    def _wait_at(self, go: Callable[[Callable[[], None]], None]) -> None:
        """What was being done is told again after a wait."""
        before, began = self._events.doing, time.monotonic()
        go(lambda: self._events.phase("wait"))
        self._waited += time.monotonic() - began
        if self._events.doing is not before and before is not None:
            self._events.resume(before)
