"""What binds a call, inferred from its times under other conditions; without counters.

One kind of evidence is how near the call comes to a ceiling by the work of its task. The other is what slows it down:
    half of the SMs taken        twice as long: it computes; as long: it waits for DRAM, a launch or a few blocks
    half of every SM taken       longer: it needs its warps to hide latency
    a warm L2                    shorter: it waits for DRAM, and its data fits
Missing or contradicting evidence makes the answer less sure, or "unknown".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from analyzers.placement import LAUNCH_LOWER_BOUND, NEAR

SURE, LIKELY, UNKNOWN = "sure", "likely", "unknown"
LATENCY = "latency"
SAME, TWICE = 1.35, 1.6
"""Times as long beside the resident kernel: up to the first the call does not mind, from the second it does."""
FASTER = 0.85
"""Share of the time from which a warm L2 helps."""
PART = 0.35
"""Share of a ceiling below which it is not named, whatever else speaks for it."""
MINDS = 1.2
"""Times as long with half of every SM, from which the call needs its warps."""
CONDITIONS = ("half_sms", "half_warps", "warm")


class Evidence(msgspec.Struct, frozen=True):
    """How many times as long a call takes under each condition; NaN where not tried.

    `uses`: share of each ceiling by the task's work; `time` [s].
    """

    time: float
    uses: Mapping[str, float] = {}
    half_sms: float = math.nan
    half_warps: float = math.nan
    warm: float = math.nan

    @property
    def near(self) -> tuple[str, float]:
        """The ceiling used most, and its share; one that is exceeded does not count."""
        known = {name: use for name, use in self.uses.items() if use <= 1.05}
        name = max(known, key=lambda one: known[one], default="")
        return name, known.get(name, 0.0)


class Inferred(msgspec.Struct, frozen=True):
    """`bound_by`: a ceiling, "latency", or "unknown"; `sure`: SURE, LIKELY or UNKNOWN."""

    impl: str
    bound_by: str
    sure: str
    evidence: Evidence

    @property
    def reasons(self) -> list[tuple[str, dict[str, str]]]:
        """Kinds of evidence it rests on, with their numbers."""
        seen, (name, share) = self.evidence, self.evidence.near
        told: list[tuple[str, dict[str, str]]] = [("short", {})] if seen.time < LAUNCH_LOWER_BOUND else []
        told += [("near", {"roof": name, "share": f"{share:.0%}"})] if name else []
        times = {one: getattr(seen, one) for one in CONDITIONS}
        return told + [(one, {"times": f"{times[one]:.2f}"}) for one in CONDITIONS if not math.isnan(times[one])]


def evidence(time: float, uses: Mapping[str, float], seconds: Mapping[str, Sequence[float]]) -> Evidence:
    """Evidence from samples by condition. time [s]: of a call."""
    usual = median(seconds["usual"]) if seconds.get("usual") else math.nan
    times = {name: median(seconds[name]) / usual for name in CONDITIONS if usual > 0 and seconds.get(name)}
    return Evidence(time, dict(uses), **times)


def infer(impl: str, seen: Evidence) -> Inferred:
    """What binds a call; "unknown" where the evidence does not say."""
    bound, sure = _concluded(seen)
    return Inferred(impl, bound, sure, seen)


def _concluded(seen: Evidence) -> tuple[str, str]:
    name, share = seen.near
    indifferent, minds = seen.half_sms <= SAME, seen.half_sms >= TWICE
    if seen.time < LAUNCH_LOWER_BOUND:
        return LATENCY, SURE
    if share >= NEAR:
        return name, SURE if _agrees(name, seen) else LIKELY
    if name == "dram" and share >= PART and (indifferent or seen.warm <= FASTER) and not minds:
        return "dram", LIKELY
    if indifferent:
        # Neither the SMs nor the memory are near: few blocks, or one after the other.
        return LATENCY, LIKELY
    if minds and seen.half_warps >= MINDS:
        return LATENCY, LIKELY
    if minds and name not in ("", "dram") and share >= PART:
        return name, LIKELY
    return "unknown", UNKNOWN


def _agrees(name: str, seen: Evidence) -> bool:
    """Whether a condition bears out a ceiling that the call is near."""
    if name == "dram":
        return seen.half_sms < TWICE or seen.warm <= FASTER
    return seen.half_sms >= TWICE
