"""Infer the bottleneck of a call from its times under changed conditions, without counters.

One kind of evidence is the share of a ceiling by the task's work. The other is the change of time:
    half of the SMs taken        twice as long: compute-bound; same: bound by DRAM, launches or few blocks
    half of every SM taken       longer: the warps are needed to hide latency
    a warm L2                    shorter: DRAM-bound, and the data fits
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
"""Ratios of times with the resident kernel: up to the first unaffected, from the second doubled."""
FASTER = 0.85
"""Ratio of times up to which a warm L2 helps."""
PART = 0.35
"""Share of a ceiling below which it is never named."""
MINDS = 1.2
"""Ratio of times with half of every SM from which the call needs its warps."""
CONDITIONS = ("half_sms", "half_warps", "warm")


class Evidence(msgspec.Struct, frozen=True):
    """Ratio of times of a call under each condition; NaN if not tried.

    `uses`: share of each ceiling by the task's work; `time` [s].
    """

    time: float
    uses: Mapping[str, float] = {}
    half_sms: float = math.nan
    half_warps: float = math.nan
    warm: float = math.nan

    @property
    def near(self) -> tuple[str, float]:
        """The ceiling with the largest share, and the share; exceeded ceilings are ignored."""
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
        """Kinds of evidence used, with their numbers."""
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
    """Bottleneck of a call; "unknown" if the evidence is insufficient."""
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
    """Whether a condition confirms the ceiling with the largest share."""
    if name == "dram":
        return seen.half_sms < TWICE or seen.warm <= FASTER
    return seen.half_sms >= TWICE
