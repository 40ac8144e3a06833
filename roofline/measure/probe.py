"""Time micro-benchmarks in interleaved rounds; the best of each is a ceiling."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple

from msgspec.structs import replace

from roofline.ceilings import Ceiling, Kind

NAN = math.nan
MIB = 2**20


class Probe(NamedTuple):
    """One micro-benchmark: `run` does `work` FLOP or bytes for the ceiling `name`.

    `burst`: time it in short bursts with rests, as a busy chip runs into its power limit. Of several variants of a name
    only the FINALISTS fastest are timed in the rounds.
    """

    name: str
    kind: Kind
    variant: str
    work: float
    run: Callable[[], object]
    burst: bool = False


class Timing(NamedTuple):
    """Seconds of one batch, with SM clock [Hz] and power [W], NaN if not read."""

    seconds: float
    clock: float = NAN
    power: float = NAN


def streams(torch: Any, a: Any, b: Any, c: Any) -> Iterator[Probe]:
    """Read, write, copy and triad (STREAM's byte counts) over three arrays of floats."""
    size, variant = 4.0 * a.numel(), f"{a.numel() * 4 // MIB} MiB arrays"
    yield Probe("dram_read", "bandwidth", variant, size, lambda: torch.sum(a))
    yield Probe("dram_write", "bandwidth", variant, size, lambda: a.fill_(1.5))
    yield Probe("dram_copy", "bandwidth", variant, 2 * size, lambda: a.copy_(b))
    yield Probe("dram_triad", "bandwidth", variant, 3 * size, lambda: torch.add(b, c, alpha=3.0, out=a))


BURST, BURSTS, PAUSE = 1e-3, 15, 0.002
"""Seconds of one burst, bursts per round, and seconds of rest before each.

On an H200 the same product reads 600 TFLOP/s after 0.1 s of rest (clocks and voltage must rise again), 765 after 10 ms,
and 827 with 0.2 % between quartiles after 2 ms in bursts of 1 ms.
"""

FINALISTS = 4
HEATS = 5
"""Timings that select the variants of a name for the rounds."""

Timer = Callable[[Callable[[], object], int], Timing]
"""Runs a function so many times and returns the total time."""


@dataclass
class Result:
    """Timings of a probe in batches of so many calls, one per round."""

    probe: Probe
    calls: int
    timings: list[Timing] = field(default_factory=list)

    def rate(self, timing: Timing) -> float:
        """FLOP/s or B/s."""
        return self.probe.work * self.calls / max(timing.seconds, 1e-12)

    @property
    def rates(self) -> list[float]:
        """Rate of every round [FLOP/s, B/s]."""
        return [self.rate(one) for one in self.timings]

    @property
    def best(self) -> float:
        """Third quartile of the rounds: near the best, and reproducible."""
        rates = self.rates
        return statistics.quantiles(rates, n=4)[2] if len(rates) > 2 else max(rates)


def run_probes(
    probes: Iterable[Probe],
    timer: Timer,
    *,
    rounds: int = 7,
    batch: float = 0.03,
    budget: float = 60.0,
    now: Callable[[], float] = time.monotonic,
    rest: Callable[[float], object] = time.sleep,
) -> tuple[list[Result], list[str]]:
    """Time probes in interleaved rounds of about `batch` seconds, up to `budget` seconds.

    Interleaving spreads clock drift over all probes alike. Returns the results and why probes failed. `probes` is
    consumed once: a losing variant is released with its memory.
    """
    started = now()
    finals: dict[str, list[tuple[float, Result]]] = {}
    refused: list[str] = []
    for probe in probes:
        if probe.name in finals and now() - started > budget / 2:
            continue  # a slow device: the variants so far must do
        try:
            rate, result = _heat(probe, timer, batch, rest)
        except Exception as error:  # any library may lack the type, the memory or the kernel
            words = str(error).strip().partition("\n")[0] or "no message"
            refused.append(f"{probe.name} ({probe.variant}): {type(error).__name__}: {words}")
            continue
        rivals = [*finals.get(probe.name, []), (rate, result)]
        finals[probe.name] = sorted(rivals, key=lambda rival: -rival[0])[:FINALISTS]
    results = [result for rivals in finals.values() for _, result in rivals]
    for index in range(rounds):
        for result in results:
            if index and now() - started > budget:
                return results, refused
            result.timings.append(_timed(result.probe, result.calls, timer, rest, BURSTS))
    return results, refused


def _heat(probe: Probe, timer: Timer, batch: float, rest: Callable[[float], object]) -> tuple[float, Result]:
    """(first estimate of the rate, result without rounds): sets the number of calls."""
    timer(probe.run, 1)  # the first call compiles, loads and allocates
    once = timer(probe.run, 1).seconds
    length = BURST if probe.burst else batch
    result = Result(probe, max(1, min(10_000, round(length / max(once, 1e-9)))))
    return result.rate(_timed(probe, result.calls, timer, rest, HEATS)), result


def _timed(probe: Probe, calls: int, timer: Timer, rest: Callable[[float], object], bursts: int) -> Timing:
    """One batch, or the median of several bursts."""
    if not probe.burst:
        return timer(probe.run, calls)
    timings = []
    for _ in range(bursts):
        rest(PAUSE)
        timings.append(timer(probe.run, calls))
    return sorted(timings, key=lambda timing: timing.seconds)[bursts // 2]


def best_ceilings(results: Iterable[Result], *, setting: str = "", now: datetime | None = None) -> tuple[Ceiling, ...]:
    """The best variant of every name as a measured ceiling; `setting` is added to the note.

    The peak is the third quartile of the rounds. `spread`: how far the median lies below it.
    """
    winners: dict[str, Result] = {}
    for result in results:
        winner = winners.setdefault(result.probe.name, result)
        if result.best > winner.best:
            winners[result.probe.name] = result
    stamp = (now or datetime.now(timezone.utc)).isoformat(timespec="seconds")
    return tuple(_ceiling(result, setting, stamp) for result in winners.values())


def _ceiling(result: Result, setting: str, stamp: str) -> Ceiling:
    """A measured ceiling at the highest clock seen; power is the median."""
    clocks = [one.clock for one in result.timings if math.isfinite(one.clock)]
    powers = [one.power for one in result.timings if math.isfinite(one.power)]
    parts = (setting, f"upper quartile of {len(result.timings)} rounds x {result.calls} runs")
    return Ceiling(
        result.probe.name,
        result.probe.kind,
        result.best,
        "measured",
        note="; ".join(p for p in parts if p),
        clock=max(clocks, default=NAN),
        power=statistics.median(powers) if powers else NAN,
        variant=result.probe.variant,
        spread=1.0 - statistics.median(result.rates) / result.best,
        measured_at=stamp,
    )


DRAM_HONEST = ("dram_read", "dram_copy", "dram_triad")
"""Streams for the DRAM ceiling; write-only ones are a tenth faster than any that also reads."""


def with_dram(ceilings: Iterable[Ceiling]) -> tuple[Ceiling, ...]:
    """The ceilings with "dram" added: the best of read, copy and triad."""
    found = tuple(ceilings)
    honest = [c for c in found if c.name in DRAM_HONEST]
    if not honest:
        return found
    best = max(honest, key=lambda c: c.peak)
    variant = f"{best.name.removeprefix('dram_')}, {best.variant}"
    return (replace(best, name="dram", variant=variant), *found)


IMPOSSIBLE = 1.02
"""Ratio of measured to derived (at the measured clock) above which the measurement is wrong."""

POOR = 0.4
"""Share of the derived peak below which a matrix product had a poor kernel and gives no ceiling."""
LIBRARY = 0.6
"""Share below which the ceiling is labelled as the library's, not the chip's."""


def believable(
    ceilings: Iterable[Ceiling], derived: Callable[[Ceiling], Mapping[str, float]]
) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    """Split ceilings into valid ones and reasons against the others."""
    kept: list[Ceiling] = []
    refused: list[str] = []
    for ceiling in ceilings:
        limit = derived(ceiling).get(ceiling.name, NAN)
        ratio = ceiling.peak / limit
        where = f"{ceiling.name} ({ceiling.variant}): {ceiling.peak:.4g}, {ratio:.2f} of the derived {limit:.4g}"
        if ratio > IMPOSSIBLE:
            refused.append(f"{where}: the count or the clock is wrong")
        elif ceiling.name.startswith("tensor_") and ratio < POOR:
            refused.append(f"{where}: the library picked a poor kernel, no ceiling")
        elif ceiling.name.startswith("tensor_") and ratio < LIBRARY:
            note = f"{ceiling.note}; the library's best, {ratio:.0%} of what the chip derives to"
            kept.append(replace(ceiling, note=note))
        else:
            kept.append(ceiling)
    return tuple(kept), tuple(refused)
