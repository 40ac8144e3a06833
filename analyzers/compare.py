"""Compare runs of one task in order: changes, gains and caveats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from analyzers.errors import AnalyzeError
from analyzers.records import number, plain
from analyzers.verdicts.speedup import FORMULAS, speedup, word
from analyzers.verdicts.statistics import Ratio
from analyzers.verdicts.verdict import PACED
from collectors.caveat import Caveat, unique

NAN = math.nan
UNKNOWN = Ratio()
SCHEMA = "profkit-compare/1"
CLOCK = 0.02
"""Relative difference of SM clocks that makes times incomparable."""

SINGLE = 1.5
"""Factor by which two single times may differ by chance; convention."""

MOVED = 0.1
"""Relative change from which a counter counts as changed."""

MOST_MOVED = 6
_WATCHED = (
    "kernels",
    "bytes",
    "flops",
    "l2_bytes",
    "l1_bytes",
    "occupancy",
    "registers",
    "shared_memory",
    "waves",
    "blocks",
    "sectors_per_load",
    "sectors_per_store",
    "load_conflict_share",
    "store_conflict_share",
    "issue_active",
    "tensor_share",
    "fma_share",
    "dram_fraction",
    "l2_fraction",
    "compute_fraction",
)
_FACTS: Mapping[str, tuple[str, ...]] = {
    "device": ("the device differs", "compare runs of one device"),
    "uuid": ("another card of the same kind",),
    "driver": ("the driver differs",),
    "clock_control": ("the clock control of the counters differs",),
    "method": ("the timing method differs",),
    "window": ("the recorded part differs",),
    "l2": ("the state of the cache differs",),
    "torch": ("torch differs",),
    "cuda": ("CUDA differs",),
    "sample": ("the sample differs", "compare runs of one sample"),
    "inputs": ("the inputs differ", "compare runs of the same inputs"),
    "program": ("the command differs", "check that both commands do the same work"),
    "reference": ("the reference file differs: maybe not the same task", "check that both runs solve the same task"),
}
APART = ("device", "sample", "inputs", "method", "window", "l2")
"""Facts that must agree for a time ratio to measure the code change, and code of caveats that they do not."""

NOT_COMPARABLE = "not-comparable"
"""Verdict on times that other facts than the code may have changed; they have no ratio."""


@dataclass(frozen=True)
class Step:
    """Measured implementation: row of Analysis.impls, longest kernel, run, facts, file hashes.

    `loaded`: largest factor by which other work on the machine may have lengthened its time.
    """

    label: str
    impl: str
    row: Mapping[str, Any]
    kernel: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    loaded: float = 1.0

    @property
    def main(self) -> str:
        """Name of the longest kernel; "" without counters."""
        return str(self.kernel.get("kernel", ""))

    def number(self, name: str) -> float:
        return number(self.row if name in self.row else self.kernel, name)

    def time_beside(self, other: Step, time: str) -> float:
        """Seconds of a call, or of a launch if both are sums over one kernel's launches."""
        return self.number(time) / (self.number("kernels") if self.counted_unlike(other) else 1.0)

    def over(self, other: Step, threshold: float, clock: str = "") -> Ratio:
        """Speed-up over `other` with its interval; over the run's own reference by paired rounds.

        clock: "caller_" for the caller's, with launch and wait.
        """
        if apart_of(other.facts, self.facts):
            return Ratio(verdict=NOT_COMPARABLE)
        time = f"{clock}time"
        if self.judged_against(other, clock):
            value, low, high = (self.number(f"{clock}speedup{end}") for end in ("", "_low", "_high"))
            known = "" if clock else str(self.row.get("verdict", ""))
            return Ratio(value, low, high, verdict=known if known in (*PACED, "inconclusive") else word(low, high))
        # Of intervals that ignore that rounds were interleaved: wider, never narrower. Load and a lower SM clock lengthen
        # a time alone.
        slower = self.facts.get("sm_clock", NAN) / other.facts.get("sm_clock", NAN)
        low = other.number(f"{time}_low") / other.loaded / self.number(f"{time}_high") / max(1.0, slower)
        high = other.number(f"{time}_high") / self.number(f"{time}_low") * self.loaded * max(1.0, 1 / slower)
        value = speedup(other.time_beside(self, time), self.time_beside(other, time))
        return Ratio(value, low, high, verdict=word(*ends(Ratio(value, low, high)), threshold))

    def judged_against(self, other: Step, clock: str = "") -> bool:
        """Whether `other` is the reference of the same run, with a recorded speed-up."""
        own = self.run == other.run != "" and self.number(f"{clock}speedup_low") > 0
        return own and other.row.get("verdict") == "reference" != self.row.get("verdict")

    def counted_unlike(self, other: Step) -> bool:
        """Whether both are untimed sums over different numbers of one kernel's launches."""
        timed = any(one.number("n") > 0 for one in (self, other))
        launches = self.number("kernels"), other.number("kernels")
        return not timed and self.main == other.main != "" and min(launches) > 0 and launches[0] != launches[1]


@dataclass(frozen=True)
class Moved:
    """A counter or metric that changed: SI values before and after."""

    name: str
    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class Rung:
    """Step of a ladder: old / new against the previous step, `step`, and the first, `total`.

    `low`, `high`: interval of `step`. `caller`: the total by the caller's clock. `kernel`: the longest; `moved` needs the same kernel.
    """

    label: str
    impl: str
    changed: tuple[str, ...] = ()
    time: float
    step: float = NAN
    low: float = NAN
    high: float = NAN
    total: float
    verdict: str = ""
    attainable_fraction: float
    lower_bound_ratio: float
    bound_by: str
    moved: tuple[Moved, ...] = ()
    kernel: str = ""
    since: Ratio = UNKNOWN
    caller_time: float = NAN
    caller: Ratio = UNKNOWN

    @property
    def over_step(self) -> Ratio:
        """Speed-up over the previous step by the clock that decides."""
        return Ratio(self.step, self.low, self.high, verdict=self.verdict)


def of_ratio(one: Ratio) -> dict[str, Any]:
    """Speed-up, interval and verdict for JSON."""
    return {"ratio": one.value, "low": one.low, "high": one.high, "verdict": one.verdict}


def ends(one: Ratio) -> tuple[float, float]:
    """Interval of a speed-up with its slack; without one, the chance of two single times."""
    low, high = (one.value / SINGLE, one.value * SINGLE) if math.isnan(one.low) else (one.low, one.high)
    return low * min(1.0, one.slack), high * max(1.0, one.slack)


@dataclass(frozen=True)
class Row:
    """Steps in order; `since`: speed-up over the first; `apart`: relevant facts that differ."""

    rungs: tuple[Any, ...]
    caveats: tuple[Caveat, ...]
    apart: tuple[str, ...]

    def regressions(self, limit: float) -> list[Any]:
        """Steps slower than the first by more than `limit`, a fraction, interval included."""
        return [one for one in self.rungs[1:] if one.since.verdict == "slower" and 1 / ends(one.since)[1] - 1 > limit]

    def inconclusive(self, limit: float) -> list[Any]:
        """Steps with the limit inside their interval."""
        sure = self.regressions(limit)
        return [one for one in self.rungs[1:] if one not in sure and not 1 / ends(one.since)[0] - 1 <= limit]


class Ladder(Row):
    """Ladder of implementations: steps of Rung."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: SI, NaN as None."""
        rows = [
            {
                **plain({key: one for key, one in asdict(rung).items() if key not in ("since", "caller")}),
                "caller": plain(of_ratio(rung.caller)),
            }
            for rung in self.rungs
        ]
        return {
            "schema": SCHEMA,
            "convention": {"name": "ratio", "formula": FORMULAS["ratio"]},
            "steps": rows,
            "caveats": msgspec.to_builtins(self.caveats),
            "apart": list(self.apart),
        }


def compare(steps: Sequence[Step], threshold: float = 0.01) -> Ladder:
    """The ladder of steps. Raises AnalyzeError for fewer than two, or a step without a time."""
    if len(steps) < 2:
        raise AnalyzeError("a comparison needs two steps", fix="name BEFORE and AFTER")
    for step in steps:
        if not step.number("time") > 0:
            raise AnalyzeError(f"{step.label}: {step.impl} has no time", fix="measure it again")
    rungs = [_rung(step, before, steps[0], threshold) for before, step in zip([None, *steps], steps, strict=False)]
    caveats, apart = unlike([(one.label, one.facts) for one in steps])
    caveats += [
        Caveat(
            "the number of launches differs: times are compared per launch",
            ", ".join(f"{one.label}: {one.number('kernels'):.0f}" for one in pair),
            "compare as many launches of each, or time calls",
            "launches",
        )
        for pair in pairwise(steps)
        if pair[0].counted_unlike(pair[1])
    ]
    if single := [rung.label for rung in rungs[1:] if math.isnan(rung.low) and rung.step > 0]:
        what = f"one time on each side: no spread is known, and a change below {SINGLE}x may be chance"
        unsure = any(rung.verdict == "inconclusive" for rung in rungs[1:])
        fix = "record both again, or compare calls or steps" if unsure else ""
        caveats.append(Caveat(what, ", ".join(single), fix, "single"))
    return Ladder(tuple(rungs), unique(caveats), tuple(apart))


def _rung(step: Step, before: Step | None, first: Step, threshold: float) -> Rung:
    since = step.over(first, threshold)
    over = Ratio(verdict="") if before is None else step.over(before, threshold)
    return Rung(
        label=step.label,
        impl=step.impl,
        changed=_changed(before, step) if before else (),
        time=step.number("time"),
        step=over.value,
        low=over.low,
        high=over.high,
        total=since.value,
        verdict=over.verdict,
        attainable_fraction=step.number("attainable_fraction"),
        lower_bound_ratio=step.number("lower_bound_ratio"),
        bound_by=str(step.row.get("bound_by", "")),
        moved=_moved(before, step) if before and over.verdict != NOT_COMPARABLE else (),
        kernel=step.main,
        since=since,
        caller_time=step.number("caller_time"),
        caller=step.over(first, threshold, "caller_") if before else UNKNOWN,
    )


def apart_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Differing facts of APART; a sample renamed with the same reference is the same task."""
    known = [name for name in (*APART, "reference") if before.get(name) and after.get(name)]
    other = [name for name in known if before[name] != after[name]]
    return tuple(name for name in other if name in APART and (name != "sample" or "reference" in other))


def _changed(before: Step, after: Step) -> tuple[str, ...]:
    """Changes of the code: another implementation, or files with another hash."""
    if before.impl != after.impl:
        return (f"{before.impl} -> {after.impl}",)
    names = sorted(set(before.files) | set(after.files))
    return tuple(name for name in names if before.files.get(name) != after.files.get(name))


def _moved(before: Step, after: Step) -> tuple[Moved, ...]:
    """Counters that changed in the call, and in the longest kernel if it is the same."""
    if any(one.row.get("work_source", "counted") != "counted" for one in (before, after)):
        return ()
    same = before.main == after.main
    names = [name for name in _WATCHED if same or (name in before.row and name in after.row)]
    every = [Moved(name, before.number(name), after.number(name)) for name in names]
    found = [one for one in every if abs(one.after - one.before) > MOVED * max(abs(one.before), abs(one.after))]
    return tuple(sorted(found, key=_size, reverse=True)[:MOST_MOVED])


def _size(moved: Moved) -> float:
    small, large = sorted((abs(moved.before), abs(moved.after)))
    return math.log(large / small) if small > 0 else math.inf


def unlike(steps: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[list[Caveat], list[str]]:
    """Differences between steps (label, facts), and the relevant ones (APART)."""
    caveats, apart = [], []
    for name, (words, *fix) in _FACTS.items():
        values = {label: str(facts.get(name) or "") for label, facts in steps}
        if len(set(filter(None, values.values()))) > 1:
            listed = ", ".join(f"{label}: {value}" for label, value in values.items() if value)
            code = "apart" if name in APART else ""
            caveats.append(Caveat(words, listed, fix[0] if fix else "measure both one after the other", code))
            apart += [name] if code else []
    clocks = {label: facts.get("sm_clock", NAN) for label, facts in steps}
    known = [clock for clock in clocks.values() if clock > 0]
    if known and max(known) / min(known) - 1 > CLOCK:
        listed = ", ".join(f"{label}: {clock / 1e6:.0f} MHz" for label, clock in clocks.items())
        caveats.append(Caveat("the SM clock differs", listed, "lock the clock, or measure both one after the other"))
        apart.append("sm_clock")
    return caveats, apart
