"""Sampling of call times in rounds.

Every round visits every implementation in random order, so clock drift affects all alike. A round is a block for the
statistics. `measure` stops when every median is precise enough, or when the budget is spent.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from profkit.rundir.files import write_rows

Call = Callable[[], Any]

MIN_ROUNDS = 12
MAX_ROUNDS = 400
DECIDING = 6
"""Least rounds for a verdict (analyzers/verdicts/statistics.py)."""
_PATIENCE, _MOST_PATIENCE = 40, 60.0
"""Extra budgets, and at most these seconds, for DECIDING rounds on a busy machine."""
PER_ROUND = 3
RETRIES = 3
"""Repetitions of an unsound sample."""
CLOCK_SHARE = 0.75


@dataclass(frozen=True)
class Sample:
    """One timed call; the fields are the columns of timings.csv.

    `seconds` by the method, for CUPTI the span; `host`: host time in the call [s], on a CPU over all threads; `busy`:
    device busy time [s], CUPTI only. `kept` 0 = dropped. `sm_clock`, `mem_clock` [Hz], `power` [W], `temperature` [C]
    and `throttle` (NVML bit mask) are the round's; NaN or 0 if unknown.
    """

    impl: str
    method: str
    round: int
    trial: int
    seconds: float
    host: float = float("nan")
    busy: float = float("nan")
    l2: str = "cold"
    kept: int = 1
    sm_clock: float = float("nan")
    mem_clock: float = float("nan")
    power: float = float("nan")
    temperature: float = float("nan")
    throttle: int = 0


class Clock:
    """Takes samples on one device.

    `note`: how; `l2`: state of the cache; `waits`: a call waits for the device, so its launch cost is included.
    """

    method = note = ""
    waits = False
    l2 = "warm"
    flush_bytes = 0

    def warm_up(self, call: Call) -> None:
        """Run the call until it is warm."""
        call()

    def sample(self, call: Call) -> tuple[float, float, bool]:
        """(device seconds, host seconds, whether the sample is sound)."""
        raise NotImplementedError

    def state(self) -> Mapping[str, float]:
        """Clock rates, power, temperature and throttle reasons now."""
        return {}


@dataclass
class Result:
    """All samples, and the number of rounds."""

    samples: list[Sample]
    rounds: int


@dataclass(frozen=True)
class Plan:
    """Stop criteria: `budget` [s], or every median known to `target` (relative half-width).

    Rounds: from `least` to `most`, of `trials` trials each; beyond the budget of one trial, and `late` rounds suffice
    (0: `least`); after DECIDING rounds it stops once `enough(samples)`. seed: of the order.
    """

    budget: float
    target: float
    least: int = MIN_ROUNDS
    most: int = MAX_ROUNDS
    trials: int = PER_ROUND
    seed: int = 0
    late: int = 0
    enough: Callable[[list[Sample]], bool] | None = None


def measure(
    calls: Mapping[str, Call],
    clock: Clock,
    plan: Plan,
    before: Callable[[str], None] = lambda _: None,
    after: Callable[[str, int], None] = lambda _name, _round: None,
) -> Result:
    """Time the calls in interleaved rounds, with `before(impl)` and `after(impl, round)`."""
    order = list(calls)
    shuffle = random.Random(plan.seed)
    for name in order:
        before(name)
        call: Any = calls[name]
        # A call in another process is timed there.
        call.warm_up(clock.method) if hasattr(call, "warm_up") else clock.warm_up(call)
    samples: list[Sample] = []
    end = time.monotonic() + plan.budget
    patience = max(plan.budget, min(_PATIENCE * plan.budget, _MOST_PATIENCE))
    number = 0
    while number < plan.most and (number < (plan.late or plan.least) or time.monotonic() < end):
        shuffle.shuffle(order)
        for name in order:
            # Medians need eight in DECIDING rounds.
            trials = plan.trials if number < 2 or time.monotonic() < end else 1
            samples += [_sample(name, calls[name], clock, number, trial, before, after) for trial in range(trials)]
        number += 1
        if number >= DECIDING and plan.enough and plan.enough(samples):
            break
        if number >= plan.least and number % 4 == 0 and precision(samples) <= plan.target:
            break
        if number >= max(3, plan.late) and time.monotonic() > end + (plan.budget if number >= DECIDING else patience):
            break
    return Result(samples, number)


def _sample(
    name: str,
    call: Any,
    clock: Clock,
    number: int,
    trial: int,
    before: Callable[[str], None],
    after: Callable[[str, int], None],
) -> Sample:
    for _ in range(1 + RETRIES):
        # Fresh data for every sample: stale answers are wrong.
        before(name)
        seconds, host, sound = call.sample(clock.method) if hasattr(call, "sample") else clock.sample(call)
        if sound:
            break
    after(name, number)
    state: dict[str, Any] = dict(clock.state()) if trial == 0 else {}
    return Sample(name, clock.method, number, trial, seconds, host, l2=clock.l2, kept=int(sound), **state)


def apart(samples: list[Sample], reference: str, by: float) -> bool:
    """Whether every candidate differs from the reference by the fraction `by` in each round.

    In one direction, and by about the same ratio.
    """
    seconds: dict[str, dict[int, list[float]]] = {}
    for one in samples:
        seconds.setdefault(one.impl, {}).setdefault(one.round, []).append(one.seconds)
    base = {number: float(np.median(values)) for number, values in seconds.pop(reference, {}).items()}
    for rounds in seconds.values():
        # Over the reference's own time: a process may claim that its calls take none.
        ratios = [float(np.median(values)) / base[number] for number, values in rounds.items() if number in base]
        far = bool(ratios) and (min(ratios) > 1 + by or max(ratios) < 1 / (1 + by))
        if not (far and max(ratios) <= (1 + by) * min(ratios)):
            return False
    return bool(base and seconds)


def drop_slow_rounds(samples: list[Sample], full_clock: float) -> list[Sample]:
    """Drop samples of rounds with an SM clock below CLOCK_SHARE of `full_clock` [Hz].

    If most rounds are slow, none is dropped.
    """
    slow = {s.round for s in samples if s.sm_clock < CLOCK_SHARE * full_clock}
    if len(slow) * 2 > len({s.round for s in samples}):
        return samples
    return [replace(s, kept=0) if s.round in slow else s for s in samples]


def precision(samples: list[Sample]) -> float:
    """The largest relative half-width of a median's 95 % interval; inf for too few samples."""
    kept: dict[str, list[float]] = {sample.impl: [] for sample in samples}
    for sample in samples:
        if sample.kept:
            kept[sample.impl].append(sample.seconds)
    worst = 0.0
    for side in kept.values():
        values = np.sort(np.asarray(side))
        n = len(values)
        if n < 8:
            return float("inf")
        reach = 0.98 * n**0.5
        low, high = values[max(0, int(n / 2 - reach))], values[min(n - 1, int(np.ceil(n / 2 + reach)))]
        worst = max(worst, float((high - low) / 2 / np.median(values)))
    return worst


def write(samples: list[Sample], path: Path) -> None:
    """Write timings.csv: one row per sample, fields as in `Sample`."""
    names = [field.name for field in fields(Sample)]
    write_rows(path, [names, *([_cell(getattr(sample, name)) for name in names] for sample in samples)])


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if value != value else f"{value:.9g}"
    return value
