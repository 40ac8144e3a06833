"""What changed from one run of a sample to the next, a line a candidate."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from profkit.report.messages import language, say

if TYPE_CHECKING:
    from analyzers.verdicts.verdict import Verdict
    from profkit.study.study import Study

_NOT_ITS_OWN = ("wide", "busy", "clocks", "few", "waits")
"""Conditions that the measurement is in and not the candidate."""
_BITS = 1.0
"""Bits of an answer that may come and go with the inputs."""


def lines(before: Study, now: Study, names: Collection[str]) -> list[str]:
    """ "cuda: 1.76x -> 1.92x", and after it what became worse; of the candidates that both runs have."""
    pairs = ((name, before.verdicts[name], one) for name, one in now.verdicts.items() if name in before.verdicts)
    told = [(name, old, new) for name, old, new in pairs if name in names and "skipped" not in (old.word, new.word)]
    found = []
    for name, old, new in told:
        worse = [*_worse(old, new), *_less_exact(before, now, name)]
        said = [_step(old, new), *(say("change_worse", what=one) for one in worse)]
        found += [name + say("colon") + say("comma").join(said)]
    return found


def _step(old: Verdict, new: Verdict) -> str:
    return f"{_short(old)} -> {_short(new)}"


def _short(one: Verdict) -> str:
    return f"{one.speedup:.3g}x" if one.right and math.isfinite(one.speedup) else one.word


def _worse(old: Verdict, new: Verdict) -> Iterator[str]:
    known = {one.code for one in old.conditions}
    busy = "busy" in known or any(one.code == "busy" for one in new.conditions)
    if old.right and new.right and new.high < old.low and not busy:
        yield say("change_slower")
    for one in new.conditions if new.right else ():
        if one.code not in known and one.code not in _NOT_ITS_OWN:
            yield one.text(language())


def _less_exact(before: Study, now: Study, name: str) -> Iterator[str]:
    bits = []
    for study in (before, now):
        least = next((one.least for one in study.manifest.candidates if one.name == name), None)
        bits.append(math.nan if least is None or least.bits is None else least.bits)
    if bits[1] < bits[0] - _BITS:
        yield say("change_bits", before=f"{bits[0]:.1f}", now=f"{bits[1]:.1f}")
