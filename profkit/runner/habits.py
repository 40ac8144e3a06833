"""What a candidate does between its calls, which no single call shows: work begun before it is asked for, and answers
made out of the one to data that differ by a factor.

Both are right answers, and each is faster than the work. So calls that cannot profit are set beside calls that can: one that
is made the moment its data are there beside one that is made later, and data just drawn beside the same data times a number.
They are looked at when the timed calls are over, for what begins late begins with those.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from profkit.runner import facts
from profkit.runner.offence import OffenceError

_LOOKS = 4
_SUSPECT, _SURE = 1.3, 1.6
"""Times by which one look may differ before more are taken, and by which every one of them has to."""
_WORTH_WHILE = 50e-6
_LEAST_GAP, _MOST_GAP = 2e-3, 0.5
_clock = time.perf_counter


class Seconds(NamedTuple):
    """Of a call on new data made at once, of one made a while after its data were there, and of one on the first one's data
    times a factor, made at once.
    """

    at_once: float
    later: float
    scaled: float


def look(call: Any, device: torch.device) -> Seconds:
    """Calls on the next four changes of data: any, after which the process is awake, drawn, drawn, the last times a factor."""
    call.turn()
    _seconds(call, device)
    call.turn()
    at_once = _seconds(call, device)
    call.turn()
    time.sleep(min(_MOST_GAP, _LEAST_GAP + 2 * at_once))
    later = _seconds(call, device)
    call.turn()
    return Seconds(at_once, later, _seconds(call, device))


def _seconds(call: Any, device: torch.device) -> float:
    began = _clock()
    call()
    facts.settle(device)
    return _clock() - began


def refuse(looks: Callable[[], Seconds]) -> None:
    """Raise OffenceError for a candidate that has one of these habits; `looks` takes one look more."""
    seen = [looks()]
    while len(seen) <= _LOOKS and (_faster(seen, "later", _SUSPECT) or _faster(seen, "scaled", _SUSPECT)):
        seen.append(looks())
    if len(seen) <= _LOOKS:
        return
    for habit, status, what in (
        (
            "later",
            "works-before-call",
            "a call made {} after its data are there is {:.3g} times as fast as one made at once",
        ),
        ("scaled", "caches-results", "data seen before times a factor{} is answered {:.3g} times faster than new data"),
    ):
        if _faster(seen, habit, _SURE):
            times = min(one.at_once for one in seen) / statistics.median(getattr(one, habit) for one in seen)
            raise OffenceError(status, what.format("a while" if habit == "later" else "", times))


def _faster(seen: list[Seconds], habit: str, times: float) -> bool:
    """Whether a middling call of that kind is at least so many times faster than every one made at once on new data: load
    only ever adds to some.
    """
    least, middle = min(one.at_once for one in seen), statistics.median(getattr(one, habit) for one in seen)
    return bool(least > times * middle and least - middle > _WORTH_WHILE)
