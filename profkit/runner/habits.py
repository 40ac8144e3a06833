"""What a candidate does between its calls, which no single call shows: work begun before it is asked for, and answers
made out of the one to data that differ by a factor.

Both are right answers, and each is faster than the work. So calls that cannot profit are set beside calls that can: one that
is made the moment its data are there beside one that is made later, and data just drawn beside the same data times a number.
They are looked at when the timed calls are over, for what begins late begins with those.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from profkit.runner import busy, facts
from profkit.runner.offence import OffenceError

_LOOKS = 4
_SUSPECT, _SURE = 1.3, 1.6
"""Times by which one look may differ before more are taken, and by which every one of them has to."""
_WORTH_WHILE = {"cuda": 0.2e-3, "cpu": 1e-3}
"""Seconds that a habit has to win. On a CPU that is more than waking threads takes, which sleep while data are drawn and
not while they are multiplied.
"""
_WAITED = 0.1e-3
"""Seconds that a call made later has to win where both clocks say so: to wait makes nobody's threads faster."""
_LEAST_GAP, _MOST_GAP = 2e-3, 0.5
_clock, _cpu_clock = time.perf_counter, time.process_time
AT_ONCE, LATER, SCALED = 0, 1, 2
"""The calls of a look: on new data at once, a while after its data were there, on the data of that one times a factor."""
_FOUND = (
    (
        LATER,
        "works-before-call",
        "a call made a while after its data are there is {:.3g} times as fast as one made at once",
    ),
    (SCALED, "caches-results", "data seen before times a factor is answered {:.3g} times faster than new data"),
)


@dataclass(frozen=True)
class Look:
    """Seconds of each of the three calls: by the clock, and of all threads of its process on a core, which load does not
    change. Those are said of a CPU alone, and 0 elsewhere.
    """

    wall: Sequence[float]
    cpu: Sequence[float]


def look(call: Any, device: torch.device) -> Look:
    """Calls on the next four changes of data: any, after which the process is awake, drawn, drawn, the last times a factor."""
    _turned(call, device)
    _spent(call, device)
    _turned(call, device)
    at_once = _spent(call, device)
    _turned(call, device)
    time.sleep(min(_MOST_GAP, _LEAST_GAP + 2 * at_once[0]))
    later = _spent(call, device)
    _turned(call, device)
    wall, cpu = zip(at_once, later, _spent(call, device), strict=True)
    return Look(wall, cpu)


def by_clock(seen: Look) -> Look:
    """A look without the seconds of a core."""
    return Look(seen.wall, [0.0] * len(seen.cpu))


def _turned(call: Any, device: torch.device) -> None:
    """Bring in other data. A GPU copies them on its own time, which is none of the call that follows."""
    call.turn()
    facts.settle(device)


def _spent(call: Any, device: torch.device) -> tuple[float, float]:
    began, working = _clock(), _cpu_clock()
    call()
    facts.settle(device)
    return _clock() - began, _cpu_clock() - working if device.type == "cpu" else 0.0


def refuse(name: str, looks: Callable[[], Look], device: torch.device) -> list[dict[str, str]]:
    """Raise OffenceError for a candidate that has one of these habits, as far as load does not explain what was seen: then
    the doubt about it is returned. `looks` takes one look more.
    """
    worth = _WORTH_WHILE[device.type]
    watch, seen = busy.Watch(), [looks()]
    while len(seen) <= _LOOKS and (_ahead(seen) or any(_suspect(seen, call, worth) for call, _, _ in _FOUND)):
        seen.append(looks())
        watch.look()
    doubts = []
    for call, status, what in _FOUND if len(seen) > _LOOKS else ():
        cpu, wall = (_times(each, call, worth) for each in ([one.cpu for one in seen], [one.wall for one in seen]))
        # Threads that still spin after the copying are in the seconds of a call made at once: those alone are no evidence.
        cpu = max(_ahead(seen), 1.0) if call == LATER else cpu
        if cpu > _SURE or wall > _SURE * watch.slower:
            raise OffenceError(status, what.format(max(cpu, wall)))
        if wall > _SURE:
            unknown = f"whether {name} works between its calls could not be told"
            doubts.append(busy.unsure(unknown, f"{what.format(wall)}, on a busy machine: {watch.said()}"))
    return doubts


def _suspect(seen: list[Look], call: int, worth: float) -> bool:
    return any(_times([getattr(one, by) for one in seen], call, worth) > _SUSPECT for by in ("wall", "cpu"))


def _ahead(seen: list[Look]) -> float:
    """How many times faster calls made later are by a core's seconds, where they are so by the clock as well; else 0, as on
    a GPU, of which load may explain what the clock says.
    """
    times = [_times([getattr(one, by) for one in seen], LATER, _WAITED) for by in ("wall", "cpu")]
    return times[-1] if min(times) > _SUSPECT else 0.0


def _times(seen: list[Sequence[float]], call: int, worth: float) -> float:
    """How many times faster a middling call of that kind is than every one made at once on new data, where that is worth
    while: load only ever adds to some. Else 1.
    """
    least, middle = min(one[AT_ONCE] for one in seen), statistics.median(one[call] for one in seen)
    return float(least / max(middle, 1e-9)) if least - middle > worth else 1.0
