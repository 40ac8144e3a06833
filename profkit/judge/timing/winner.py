"""The fastest of several candidates, timed again to remove selection bias."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable
from dataclasses import replace

from profkit.guest.clocks.timing import Sample
from profkit.judge.timing.outside import DECIDING

FIELD = 3
"""Candidates from which selection bias matters."""
FIRST = "-first"
"""Suffix of the first samples' method."""


def fastest(samples: Iterable[Sample], candidates: Collection[str]) -> str:
    """The candidate with the least median by the deciding method; "" for fewer than FIELD."""
    kept = [sample for sample in samples if sample.kept and sample.impl in candidates]
    for method in DECIDING:
        seconds = {name: [s.seconds for s in kept if s.impl == name and s.method == method] for name in candidates}
        medians = {name: statistics.median(values) for name, values in seconds.items() if values}
        if len(medians) >= FIELD:
            return min(medians, key=lambda name: medians[name])
    return ""


def replaced(samples: Iterable[Sample], fresh: Collection[Sample], name: str) -> list[Sample]:
    """All samples, `fresh` ones in later rounds; earlier ones of `name` marked as FIRST."""
    earlier = list(samples)
    methods = {sample.method for sample in fresh}
    beyond = 1 + max((sample.round for sample in earlier), default=-1)
    first = [replace(s, method=s.method + FIRST) if s.impl == name and s.method in methods else s for s in earlier]
    return first + [replace(s, round=s.round + beyond) for s in fresh]
