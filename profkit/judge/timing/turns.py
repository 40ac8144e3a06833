"""Clocks over processes: one call at a time, with the device idle between them.

The judge draws the order. Each call is timed by a clock of its own process while the others wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from profkit.guest.clocks.timing import Clock
from profkit.judge.timing.claims import RemoteCall


class TurnsClock:
    """A clock that asks the process of the call. Clock rates and temperatures are read here."""

    def __init__(self, local: Clock) -> None:
        self.local = local
        self.method = local.method
        self.l2 = local.l2
        self.flush_bytes = local.flush_bytes

    @property
    def note(self) -> str:
        return self.local.note

    def warm_up(self, call: Any) -> int:
        return call.warm_up(self.method) if isinstance(call, RemoteCall) else self.local.warm_up(call)

    def sample(self, call: Any) -> tuple[float, float, bool]:
        return call.sample(self.method) if isinstance(call, RemoteCall) else self.local.sample(call)

    def state(self) -> Mapping[str, float]:
        return self.local.state()


def over(clock: Clock, calls: Mapping[str, Any]) -> Clock:
    """The clock itself, or a TurnsClock where some calls live in other processes."""
    return cast(Clock, TurnsClock(clock)) if suspects(calls) else clock


def suspects(calls: Mapping[str, Any]) -> dict[str, RemoteCall]:
    """The calls that live in other processes."""
    return {name: call for name, call in calls.items() if isinstance(call, RemoteCall)}


def notes(calls: Mapping[str, Any], clock: Clock) -> str:
    """The clock's note; the longer one of another process where it adds to it."""
    said = [call.note(clock.method) for call in suspects(calls).values()]
    return next((note for note in said if len(note) > len(clock.note)), clock.note)
