"""Samples of timings.csv -> spread and speed-up of each implementation, and caveats."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analyzers.errors import AnalyzeError
from analyzers.pipes import keeps
from analyzers.verdicts.statistics import (
    MIN_ROUNDS,
    Ratio,
    Spread,
    precision_caveat,
    ratio,
    summary,
    verdict,
    widened,
)
from collectors.caveat import Caveat
from roofline import units
from roofline.ceilings import Roofline
from roofline.units import digits

NAN = math.nan
NEEDED = ("impl", "method", "round", "seconds")

TRUST = ("cupti", "nsys", "event", "graph", "do_bench", "ncu", "wall", "host")
"""Timing methods of the device, the most trusted first; a name may have a suffix, as in "event-plain". Unknown
ones come last.
"""

ASIDE = ("outside",)
"""Methods used only as checks; they treat the two sides differently, so they give no verdict."""

_THROTTLE = 0x04 | 0x08 | 0x20 | 0x40 | 0x80
"""NVML's reasons that slow the chip: power cap, hardware slowdown, software and hardware thermal, power
brake.
"""

_MANY = 0.05
"""Share of bad samples that a robust median tolerates, above which there is a caveat; convention."""

_EXCESSIVE = 10.0
"""Speed-up from which skipped work is likelier than better code."""

EXCESSIVE = "excessive"
"""Code of the caveat about an excessive speed-up."""


@dataclass(frozen=True)
class Timed:
    """Implementation timed by one method: `spread` [s], `host` [s], `sm_clock` [Hz].

    `host`: the caller's median per call; `dropped`: unsound samples; `throttled`: share of rounds slowed by power or
    heat.
    """

    impl: str
    method: str
    l2: str
    spread: Spread
    host: float = NAN
    sm_clock: float = NAN
    dropped: int = 0
    throttled: float = 0.0


def check(timings: pd.DataFrame) -> pd.DataFrame:
    """Samples with all needed columns; raises AnalyzeError for a missing one."""
    for name in NEEDED:
        if name not in timings:
            raise AnalyzeError(f"timings: column {name!r} is missing", fix=f"needed are {', '.join(NEEDED)}")
    defaults: dict[str, Any] = {
        "l2": "",
        "kept": 1,
        "process": 0,
        "host": NAN,
        "busy": NAN,
        "sm_clock": NAN,
        "throttle": 0,
    }
    result: pd.DataFrame = timings.assign(**{name: one for name, one in defaults.items() if name not in timings})
    for name in ("seconds", "host", "busy", "sm_clock", "kept", "throttle"):
        result[name] = pd.to_numeric(result[name], errors="coerce")
    result["l2"] = result["l2"].fillna("").astype(str)
    result["impl"] = result["impl"].astype(str)
    sound = result["seconds"].gt(0) & np.isfinite(result["seconds"])
    result["kept"] = result["kept"].fillna(1).ne(0) & sound
    result["process"] = result["process"].astype(str)
    blocks = pd.MultiIndex.from_arrays([result["process"], result["round"]])
    result["block"] = pd.factorize(blocks)[0]
    return result


def choose(timings: pd.DataFrame) -> pd.DataFrame:
    """Select the deciding samples: one method, one state of the cache, cold if available.

    The method is the most trusted one with MIN_ROUNDS rounds of every implementation, else the one with most rounds.
    """
    impls, kept = timings["impl"].nunique(), timings[timings["kept"]]

    def merit(method: str) -> tuple[int, int, int]:
        rounds = kept[kept["method"] == method].groupby("impl")["block"].nunique()
        fewest = int(rounds.min()) if len(rounds) == impls else 0
        enough = fewest >= MIN_ROUNDS
        return (int(enough), -_rank(method) if enough else fewest, fewest)

    methods = [str(name) for name in timings["method"].unique()]
    best = max([name for name in methods if name not in ASIDE] or methods, key=merit, default="")
    rows: pd.DataFrame = timings[timings["method"] == best]
    states = [str(name) for name in rows["l2"].unique()]
    result: pd.DataFrame = rows[rows["l2"] == ("cold" if "cold" in states else (states or [""])[0])]
    return result


def _rank(method: str) -> int:
    found = (at for at, name in enumerate(TRUST) if re.match(rf"{name}(?:[-_]|$)", method))
    return next(found, len(TRUST))


def spreads(chosen: pd.DataFrame, every: pd.DataFrame | None = None, spread: float = 0.0) -> dict[str, Timed]:
    """Each implementation's figures from the chosen samples, in order of appearance.

    every: all samples, for host seconds if the chosen method has none. spread: see statistics.ratio.
    """
    aside = _submitting(every) if every is not None else {}
    found = {}
    for impl, rows in chosen.groupby("impl", sort=False):
        kept = rows[rows["kept"]]
        slow = rows["throttle"].fillna(0).astype("int64") & _THROTTLE
        host = _median(kept["host"])
        figures = summary(*(kept[name].to_numpy() for name in ("seconds", "block", "process")))
        if figures.processes == 1 and figures.median > 0:
            low, high = widened(figures.median, figures.low, figures.high, spread)
            figures = replace(figures, low=low, high=high)
        found[str(impl)] = Timed(
            str(impl),
            str(rows["method"].iloc[0]),
            str(rows["l2"].iloc[0]),
            figures,
            aside.get(str(impl), NAN) if math.isnan(host) else host,
            _median(kept["sm_clock"]),
            len(rows) - len(kept),
            float(slow.ne(0).mean()),
        )
    return found


def _submitting(every: pd.DataFrame) -> dict[str, float]:
    """Host seconds to submit a call with the GPU's queue held; at most from idle to idle."""
    kept = every[every["kept"]]
    found = {}
    for impl, rows in kept.groupby("impl"):
        idle = rows["method"].eq("host")
        inside, outside = _median(rows.loc[~idle, "host"]), _median(rows.loc[idle, "seconds"])
        found[str(impl)] = inside if not outside < inside else outside
    return found


def _median(values: pd.Series[float]) -> float:
    known = values.dropna()
    return float(known.median()) if len(known) else NAN


GAPS = 0.25
"""Relative half-width of gaps between a call's kernels from process to process. On an H100 the speed-up of a copy with
20 us and 17 % gaps had a standard deviation of 2 % over 48 processes, that of its kernels alone 0.1 %.
"""


def speedups(chosen: pd.DataFrame, reference: str, spread: float = 0.0) -> dict[str, Ratio]:
    """Speed-up of every implementation over the reference; {} if that was not timed.

    spread: see statistics.ratio; for one or two processes the interval allows for their gaps.
    """
    kept = chosen[chosen["kept"]]
    base = kept[kept["impl"] == reference]
    found = {}
    for impl, rows in kept.groupby("impl", sort=False):
        if impl != reference and not base.empty:
            a, b, rounds, others = (one[name].to_numpy() for name in ("seconds", "block") for one in (base, rows))
            idle = max(0.0, *(1.0 - _median(one["busy"] / one["seconds"]) for one in (base, rows)))
            gaps = GAPS * idle if spread else 0.0
            one = ratio(a, b, rounds, others, base["process"].to_numpy(), spread=max(spread, gaps))
            if one.processes == 2:  # they may agree by luck
                low, high = widened(one.value, one.low, one.high, gaps / math.sqrt(2))
                one = replace(one, low=low, high=high, verdict=verdict(low, high, one.n))
            found[str(impl)] = one
    return found


ANOTHER = 1.1
"""Ratio of two clocks from which both are reported."""

SURE = 1.1
"""Speed-up from which a clock outweighs another whose interval includes 1: event pairs fluctuate 10 to 30 us."""


def two_clocks(
    samples: pd.DataFrame,
    chosen: pd.DataFrame,
    ratios: Mapping[str, Ratio],
    reference: str,
) -> dict[str, str]:
    """Contradicting speed-ups by both device clocks: "cupti 1.04x, event 1.02x".

    Event pairs contradict if their interval lies on the other side of 1; below SURE also if it includes 1 and their
    median is nearer to 1. They need MIN_ROUNDS rounds in the same state of the cache.
    """
    method, l2 = (str(chosen[name].iloc[0]) if len(chosen) else "" for name in ("method", "l2"))
    claimed = {name: r for name, r in ratios.items() if r.verdict in ("faster", "slower")}
    if method == "event" or not claimed:
        return {}
    asked = samples["impl"].isin([reference, *claimed])
    others = speedups(samples[asked & samples["method"].eq("event") & samples["l2"].eq(l2)], reference)
    return {
        name: f"{method} {r.value:.3g}x, event {others[name].value:.3g}x"
        for name, r in claimed.items()
        if name in others and _contradicts(others[name], r)
    }


def for_a_caller(
    samples: pd.DataFrame, chosen: pd.DataFrame, ratios: Mapping[str, Ratio], reference: str, spread: float = 0.0
) -> dict[str, dict[str, Any]]:
    """Columns by the clock of a waiting caller, where a device's clock decides.

    `caller` is their sentence, as "0.71x (5 us -> 7 us)", if the two speed-ups differ. spread: see statistics.ratio.
    """
    if not len(chosen) or str(chosen["method"].iloc[0]) not in ("cupti", "event"):
        return {}
    waiting = samples[samples["method"].eq("host")]
    waited = speedups(waiting, reference, spread)
    found = dict[str, dict[str, Any]]()
    for name, t in spreads(waiting, None, spread).items():
        one, s = waited.get(name, Ratio()), t.spread
        times = {"caller_time": s.median, "caller_time_low": s.low, "caller_time_high": s.high}
        gains = {"caller_speedup": one.value, "caller_speedup_low": one.low, "caller_speedup_high": one.high}
        found[name] = {**times, **gains}
    for name, r in ratios.items():
        if name in waited and differ(waited[name], r):
            value, low, high = map(digits, (waited[name].value, waited[name].low, waited[name].high))
            before, after = (units.text(found[one]["caller_time"], "s") for one in (reference, name))
            found[name]["caller"] = f"{value}x{f' [{low}, {high}]' if low != high else ''} ({before} -> {after})"
    return found


def differ(one: Ratio, other: Ratio) -> bool:
    """Whether the speed-ups by two clocks differ by more than their intervals and ANOTHER."""
    return one.low > other.high * ANOTHER or one.high * ANOTHER < other.low


def _contradicts(other: Ratio, claimed: Ratio) -> bool:
    """Whether another clock's interval contradicts a claimed verdict."""
    faster = claimed.verdict == "faster"
    low, high = (other.low, other.high) if faster else (1 / other.high, 1 / other.low)
    middle, gain = (other.value, claimed.value) if faster else (1 / other.value, 1 / claimed.value)
    least = claimed.low if faster else 1 / claimed.high
    return other.n >= MIN_ROUNDS and (high <= 1 or (gain < SURE and low <= 1 and middle < least))


def caveats(timed: Mapping[str, Timed], ratios: Mapping[str, Ratio], reference: str, target: float) -> list[Caveat]:
    """Caveats of the chosen samples; target: wanted relative half-width of the medians."""
    if not timed:
        return []
    found: list[Caveat | None] = [precision_caveat({name: t.spread for name, t in timed.items()}, target)]
    if few := [f"{name}: {r.n} rounds" for name, r in ratios.items() if r.n < MIN_ROUNDS]:
        told = f"{', '.join(few)}, {MIN_ROUNDS} needed"
        found.append(Caveat("too few interleaved rounds for a verdict", told, "raise the time budget"))
    if any(t.l2 == "warm" for t in timed.values()):
        warm = "timed with a warm cache: data that fits in L2 did not come from DRAM"
        found.append(Caveat(warm, "", "time with a cold L2"))
    found += [caveat for t in timed.values() for caveat in _of_samples(t)]
    found.append(_clocks(timed, reference))
    fix = "check that it computes everything, on this stream, every time"
    found += [
        Caveat(
            f"{name}: a speed-up above {_EXCESSIVE:.3g}x is rare for the same work", f"{r.value:.3g} x", fix, EXCESSIVE
        )
        for name, r in ratios.items()
        if r.value > _EXCESSIVE
    ]
    return [caveat for caveat in found if caveat is not None]


def _of_samples(t: Timed) -> Iterator[Caveat]:
    """Caveats about one implementation's samples."""
    s, total = t.spread, t.spread.n + t.dropped
    if t.dropped > _MANY * total:
        yield Caveat(
            f"{t.impl}: unsound samples were left out", f"{t.dropped} of {total}", "see column kept in timings.csv"
        )
    if s.drift:
        much = f"{s.drift:+.2%} from the first to the last third"
        fix = "warm up longer; interleaving keeps most of it out of the speed-up"
        yield Caveat(f"{t.impl}: the time drifts during the measurement", much, fix)
    if t.throttled > 0.1:
        much = f"in {t.throttled:.0%} of the rounds"
        fix = "cool it, or lock a lower clock; the speed-up holds only for this state"
        yield Caveat(f"{t.impl}: the device was slowed by power or heat", much, fix)


def _clocks(timed: Mapping[str, Timed], reference: str) -> Caveat | None:
    base = timed[reference].sm_clock if reference in timed else NAN
    other = {name: t.sm_clock for name, t in timed.items() if abs(t.sm_clock / base - 1) > 0.02}
    if not other:
        return None
    listed = ", ".join(f"{name} {clock / 1e6:.0f} MHz" for name, clock in {reference: base, **other}.items())
    fix = "the speed-up includes the clock difference: lock the clock to compare only code"
    return Caveat("the SM clock differs between implementations", listed, fix)


def explained(caveat: Caveat, rows: Mapping[str, Mapping[str, Any]], reference: str, roofline: Roofline) -> bool:
    """Whether lower precision, or fewer launches than a launch-bound reference's, explain it."""
    name = caveat.what.partition(": ")[0]
    if caveat.code != EXCESSIVE or name not in rows or reference not in rows:
        return False
    fewer = float(rows[reference].get("kernels", NAN)) / (float(rows[name].get("kernels", NAN)) or NAN)
    if rows[reference].get("bound_by") == "launch" and float(rows[name].get("speedup", NAN)) <= fewer * _EXCESSIVE:
        return True
    ours, theirs = (str(rows[one].get("compute", "")) for one in (name, reference))
    more = roofline.peak(ours) / roofline.peak(theirs) if ours and theirs else NAN
    return keeps(ours) < keeps(theirs) and float(rows[name].get("speedup", NAN)) <= more
