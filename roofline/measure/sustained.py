"""What a tensor ceiling is worth beside its burst: held for half a minute, and met after idling as a server's GPU does."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from roofline.ceilings import HELD, Ceiling
from roofline.measure.probe import Result, Timer, Timing, best_ceilings

SECONDS = 30.0
SERVED = 6.0
BATCH, BUSY, IDLE = 0.1, 0.02, 0.18
"""Seconds: of one timing while a ceiling is held; of work and of idling before it, as a server at a tenth of its load."""


def sustained_ceilings(
    results: Iterable[Result],
    timer: Timer,
    *,
    setting: str = "",
    now: Callable[[], float] = time.monotonic,
    rest: Callable[[float], object] = time.sleep,
) -> tuple[Ceiling, ...]:
    """NAME_sustained and NAME_server of every tensor ceiling in the results: the winner's median rate.

    The first third of the half minute is left out: the chip is still heating up.
    """
    given = list(results)
    found: list[Ceiling] = []
    for burst in best_ceilings(given, setting=setting):
        if not burst.name.startswith("tensor_"):
            continue
        winner = next(r for r in given if (r.probe.name, r.probe.variant) == (burst.name, burst.variant))
        length = winner.calls * winner.probe.work / burst.peak
        held = _rates(winner, timer, SECONDS, winner.calls * max(1, round(BATCH / length)), now)
        served = _rates(winner, timer, SERVED, winner.calls * max(1, round(BUSY / length)), now, lambda: rest(IDLE))
        for ending, seen, what in (
            (HELD[0], held[len(held) // 3 :], f"median of the last two thirds of {SECONDS:g} s without a rest"),
            (HELD[1], served, f"median of bursts of {BUSY:g} s after {IDLE:g} s of idling"),
        ):
            found.append(_ceiling(burst, ending, seen, "; ".join(part for part in (setting, what) if part)))
    return tuple(found)


def _rates(
    winner: Result,
    timer: Timer,
    seconds: float,
    calls: int,
    now: Callable[[], float],
    before: Callable[[], object] = lambda: None,
) -> list[tuple[float, Timing]]:
    """(FLOP/s, timing) of so many calls, again and again."""
    end = now() + seconds
    seen: list[tuple[float, Timing]] = []
    while not seen or now() < end:
        before()
        timing = timer(winner.probe.run, calls)
        seen.append((winner.probe.work * calls / max(timing.seconds, 1e-12), timing))
    return seen


def _ceiling(burst: Ceiling, ending: str, seen: list[tuple[float, Timing]], note: str) -> Ceiling:
    rates = [rate for rate, _ in seen]
    middle = statistics.median(rates)
    clocks = [timing.clock for _, timing in seen if timing.clock == timing.clock]
    powers = [timing.power for _, timing in seen if timing.power == timing.power]
    return replace(
        burst,
        name=f"{burst.name}{ending}",
        peak=middle,
        note=note,
        clock=statistics.median(clocks) if clocks else float("nan"),
        power=statistics.median(powers) if powers else float("nan"),
        spread=(max(rates) - min(rates)) / middle,
    )
