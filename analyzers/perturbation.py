"""What binds a call, inferred from its times under other conditions; without counters.

Two kinds of evidence. How near the call comes to a ceiling by the work of its task. And what it does not mind: with half of
the SMs taken, what waits for DRAM, for a launch or for a few blocks takes about as long, what computes twice as long;
with half of every SM taken, what needs many warps to hide latency slows down; from a warm L2, what waits for DRAM is
faster where the data fits. Evidence that is not there, or that contradicts, makes the answer less sure or "unknown",
never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import msgspec

from analyzers.placement import LAUNCH_LOWER_BOUND, NEAR
from analyzers.records import plain

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

REASONS: dict[str, tuple[str, str]] = {
    "short": ("no longer than a launch takes", "不比一次 kernel 启动长"),
    "near": ("{share} of the {roof} ceiling by the task's work", "按任务工作量计，达到 {roof} 上限的 {share}"),
    "half_sms": ("half of the SMs: {times}x as long", "占去一半 SM：耗时为 {times} 倍"),
    "half_warps": ("half of every SM: {times}x", "占去每个 SM 的一半：耗时为 {times} 倍"),
    "warm": ("warm L2: {times}x", "L2 为热：耗时为 {times} 倍"),
}
"""Kind of evidence -> (English, Chinese)."""
SAYS: dict[str, tuple[str, str]] = {
    SURE: ("by time alone bound by {roof}", "仅凭时间判断：受限于{roof}"),
    LIKELY: ("by time alone probably bound by {roof}", "仅凭时间判断：很可能受限于{roof}"),
    UNKNOWN: ("time alone cannot tell what binds it", "仅凭时间无法判断瓶颈"),
}
"""How sure -> (English, Chinese)."""


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

    def text(self, lang: str = "en", roof: str = "") -> str:
        """The conclusion and what it rests on; roof: the word for what binds, as it is unless given."""
        at = 0 if lang == "en" else 1
        said = SAYS[self.sure][at].format(roof=roof or self.bound_by)
        told = self._reasons(at)
        return f"{said}（{'；'.join(told)}）" if at else f"{said} ({'; '.join(told)})"

    def _reasons(self, at: int) -> list[str]:
        seen, told = self.evidence, []
        if seen.time < LAUNCH_LOWER_BOUND:
            told.append(REASONS["short"][at])
        name, share = seen.near
        if name:
            told.append(REASONS["near"][at].format(roof=name, share=f"{share:.0%}"))
        for condition in CONDITIONS:
            times = getattr(seen, condition)
            if not math.isnan(times):
                told.append(REASONS[condition][at].format(times=f"{times:.2f}"))
        return told

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, NaN as None."""
        return plain(msgspec.to_builtins(self))


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
