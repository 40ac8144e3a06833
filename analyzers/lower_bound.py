"""Least work of an algorithm, and the least time of a machine for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from analyzers.errors import AnalyzeError
from analyzers.pipes import TENSOR, in_order
from analyzers.verdicts.speedup import SLACK
from collectors.caveat import Caveat
from roofline.ceilings import TRUST, Roofline

NAN = math.nan
OTHER = 0.98
"""Ratio of two lower bounds below which they differ."""
SOURCES = ("declared", "modelled", "counted")


class Work(msgspec.Struct, frozen=True, omit_defaults=True):
    """Work: FLOP by pipe (names of the compute ceilings; integers in OP) and DRAM bytes.

    `source`: declared (by the sample), modelled (from the reference's operations) or counted (by hardware; no lower
    bound). `written`: output bytes among `bytes`. NaN unknown. Raises AnalyzeError for a negative or infinite number or
    an unknown source.
    """

    flops: Mapping[str, float]
    bytes: float = NAN
    source: str = "declared"
    written: float = NAN
    note: str = ""

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise AnalyzeError(f"work: source {self.source!r}", fix=f"use one of {', '.join(SOURCES)}")
        for name, value in {**self.flops, "bytes": self.bytes, "written": self.written}.items():
            if value < 0 or math.isinf(value):
                raise AnalyzeError(
                    f"{self.source} work: {name} = {value!r} is impossible",
                    fix="give a number >= 0, or leave it out",
                )
        for name in ("bytes", "written"):
            if math.isnan(getattr(self, name)):
                force_setattr(self, name, NAN)  # the default itself, so that it is left out of JSON

    @property
    def total(self) -> float:
        """FLOP over all pipes; NaN if one is unknown, 0 without any."""
        return float(sum(self.flops.values()))

    @property
    def intensity(self) -> float:
        """FLOP per byte [FLOP/B]; NaN without bytes."""
        return self.total / self.bytes if self.bytes > 0 else NAN

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; unknown numbers are left out."""
        flops = {name: float(value) for name, value in self.flops.items() if not math.isnan(value)}
        known = {name: float(one) for name in ("bytes", "written") if not math.isnan(one := getattr(self, name))}
        return {"source": self.source, "flops": flops, **known} | ({"note": self.note} if self.note else {})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Work:
        """Work of `to_dict`, with None for NaN. Raises AnalyzeError naming the field."""
        flops = {name: NAN if value is None else value for name, value in data["flops"].items()}
        known = {name: value for name, value in data.items() if value is not None}
        try:
            return msgspec.convert(known | {"flops": flops}, cls)
        except msgspec.ValidationError as error:
            raise AnalyzeError(f"work: {error}") from error


@dataclass(frozen=True)
class LowerBound:
    """Least time [s] for a work, and what sets it (a ceiling's name, or "unknown").

    `hard`: no measurement can be shorter: by the highest ceiling of any source, without bytes that may stay in L2.
    """

    time: float = NAN
    bound_by: str = "unknown"
    hard: float = NAN

    def forbids(self, time: float) -> bool:
        """Whether a measured time [s] is impossible."""
        return time < self.hard * (1 - SLACK)


def below(one: float, other: float) -> bool:
    """Whether a lower bound [s] is another, lower one."""
    return one < OTHER * other


def lower_bound_time(work: Work, roofline: Roofline, *, l2_bytes: float = NAN, l2: str = "cold") -> LowerBound:
    """Least time for `work`: max(FLOP / peak, bytes / bandwidth, an empty kernel's time).

    Different pipes and memory overlap; tensor pipes share one unit and add up. `l2_bytes`: size of the cache (NaN
    unknown); `l2`: "cold" or "warm". Both affect only `hard`: written data may still be in the cache.
    """
    times = pipe_times(work.flops, roofline.peak)
    byte_time = _quotient(work.bytes, roofline.peak("dram"))
    sides = {**_combined(times), "dram": byte_time, "launch": roofline.peak("launch")}
    known = {name: value for name, value in sides.items() if not math.isnan(value)}
    best = max(known, key=lambda name: known[name], default="unknown")
    return LowerBound(known.get(best, NAN), best, _hard_time(work, roofline, l2_bytes, l2))


def pipe_times(flops: Mapping[str, float], peak: Callable[[str], float]) -> dict[str, float]:
    """Seconds of each pipe at its peak; NaN if the count or the peak is unknown."""
    return {name: _quotient(flops[name], peak(name)) for name in in_order(flops)}


def _quotient(amount: float, rate: float) -> float:
    return 0.0 if amount == 0 else amount / rate


def _combined(times: Mapping[str, float]) -> dict[str, float]:
    """Times by unit: the sum of the tensor pipes, under the name of the longest."""
    units = {name: value for name, value in times.items() if not name.startswith(TENSOR)}
    tensor = {name: value for name, value in times.items() if name.startswith(TENSOR) and not math.isnan(value)}
    if tensor:
        units[max(tensor, key=lambda name: tensor[name])] = sum(tensor.values())
    return units


def _hard_time(work: Work, roofline: Roofline, l2_bytes: float, l2: str) -> float:
    times = pipe_times(work.flops, lambda name: _highest(roofline, name))
    # So much need not have crossed the DRAM pins by the time the clock stopped.
    known = [value for value in (work.bytes if l2 == "warm" else work.written, l2_bytes) if not math.isnan(value)]
    moved = max(0.0, work.bytes - min(known, default=0.0))
    sides = [*_combined(times).values(), _quotient(moved, _highest(roofline, "dram"))]
    return max((value for value in sides if not math.isnan(value)), default=NAN)


ALONE = 1.25
"""Factor on a ceiling known only by measurement, as the machine's state may have lowered it."""


def _highest(roofline: Roofline, name: str) -> float:
    found = {source: c.peak for source in TRUST if (c := roofline.get(name, source)) is not None}
    if set(found) == {"measured"}:
        return ALONE * found["measured"]
    return max(found.values(), default=NAN)


def gate(time: float, lower_bound: LowerBound, impl: str = "") -> Caveat | None:
    """Caveat about a time [s] below the lower bound: impossible, or explained by the cache."""
    what = ""
    if lower_bound.forbids(time):
        what = f"the time is impossible: below the lower bound set by {lower_bound.bound_by}"
        share = time / lower_bound.hard
        much = f"{time:.4g} s measured, {lower_bound.hard:.4g} s needed at least ({share:.2f} of it)"
        fix = "check for skipped or cached work, lower precision, another stream, or wrong work or ceilings"
    elif time < lower_bound.time * (1 - SLACK) and lower_bound.bound_by != "launch":
        what = "faster than the lower bound of its DRAM traffic and measured ceilings"
        much = f"{time:.4g} s measured, lower bound {lower_bound.time:.4g} s"
        fix = "data in L2 and a higher sheet ceiling can explain it: time with a cold L2 on a larger input"
    who = f"{impl}: " if impl else ""
    return Caveat(who + what, much, fix) if what else None


def combine(declared: Work | None, modelled: Work | None) -> Work | None:
    """The work that sets the lower bound: declared, its gaps filled by the model; else modelled."""
    if declared is None or modelled is None:
        return declared or modelled
    moved, written = declared.bytes, declared.written
    if math.isnan(moved):
        moved, written = modelled.bytes, modelled.written
    elif math.isnan(written):
        written = min(modelled.written, moved)
    return Work(declared.flops or modelled.flops, moved, "declared", written, declared.note)
