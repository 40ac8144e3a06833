"""Rules, their subjects, and their findings.

A rule is a function of one Subject (a kernel of an implementation, or an implementation as a whole). It returns a
Case if its evidence holds, else None. The gain is an upper bound, never an estimate: the time now minus the least time
on the roofline after the fix. Texts are in the TOML file beside the module, by rule and variant: title, next step,
expectation; places in braces are parameters of the Case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import msgspec

from analyzers.records import plain, tables

NAN = math.nan
SCHEMA = "profkit-explain/1"
LANGUAGES = ("en", "zh")
KERNEL, CALL, PROGRAM = "kernel", "call", "program"
"""Levels: the kind of a rule's subject."""
TIME, HOST, HINT, COLLECT = "time", "host", "hint", "collect"
"""Severities in order: bound on device time, bound on the caller's time, no bound, undecided."""

Words: TypeAlias = "tuple[str, str, str]"
"""Title, next step and expectation in one language."""


@dataclass(frozen=True)
class Proof:
    """Evidence: a counter or metric, its value, the limit it passed ("above" or "below"), SI."""

    counter: str
    value: float
    threshold: float = NAN
    side: str = "above"


@dataclass(frozen=True)
class Subject:
    """Subject of a rule.

    kernel: "" for an implementation as a whole. time: seconds of one call. roofs: seconds at each ceiling (pipes and
    memory levels). values: counters, metrics and facts by name; text: names of pipes. peaks: the ceilings. scale: timed
    over counted seconds, if counting made it slower. whole: a program, `time` the wall time of a step. moving: kernels
    of a call that move data rather than compute.
    """

    impl: str
    kernel: str
    time: float
    values: Mapping[str, float]
    roofs: Mapping[str, float] = field(default_factory=dict)
    peaks: Mapping[str, float] = field(default_factory=dict)
    text: Mapping[str, str] = field(default_factory=dict)
    scale: float = 1.0
    whole: bool = False
    moving: frozenset[str] = frozenset()

    @property
    def level(self) -> str:
        """KERNEL, CALL or PROGRAM."""
        return PROGRAM if self.whole else KERNEL if self.kernel else CALL

    def __getitem__(self, name: str) -> float:
        return self.values.get(name, NAN)

    def has(self, *names: str) -> bool:
        """Whether all of these were collected."""
        return all(not math.isnan(self[name]) for name in names)

    def least(self, *without: str, **instead: float) -> float:
        """Least seconds on the roofline: the longest known time except those left out or replaced."""
        times = {**{n: t for n, t in self.roofs.items() if n not in without}, **instead}
        return max((t for t in times.values() if not math.isnan(t)), default=0.0)

    @property
    def nearest(self) -> tuple[str, float]:
        """The ceiling with the largest share, and the share."""
        known = {name: t for name, t in self.roofs.items() if t > 0}
        name = max(known, key=lambda n: known[n], default="")
        return name, known[name] / self.time if name and self.time > 0 else NAN


@dataclass(frozen=True)
class Case:
    """Result of a rule: its evidence, the least time after the fix [s], parameters of the texts.

    strength: how far the evidence exceeds its threshold (0..1); only orders equal gains. variant: of the rule's texts.
    likely: seconds after the fix in good kernels, if more than `after`; findings rank by it. kernel: the one concerned
    in a call. covers: kernels of a call that it explains, "" for the gaps; empty: all of the call. share: of the
    binding ceiling, "share" in the texts.
    """

    proofs: tuple[Proof, ...]
    after: float
    params: Mapping[str, str] = field(default_factory=dict)
    strength: float = 0.5
    severity: str = TIME
    variant: str = ""
    likely: float = NAN
    covers: frozenset[str] = frozenset()
    kernel: str = ""
    share: float = NAN


Test: TypeAlias = "Callable[[Subject], Case | None]"


@dataclass(frozen=True)
class Rule:
    """A named test. needs: any complete group of counters; level: KERNEL, CALL, PROGRAM."""

    name: str
    needs: tuple[tuple[str, ...], ...]
    test: Test
    level: str = KERNEL

    def decidable(self, known: Container[str]) -> bool:
        """Whether these counters suffice."""
        return any(all(name in known for name in group) for group in self.needs)

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of its variants, "" for the default texts."""
        return ("", *(name for name, value in self._texts.items() if isinstance(value, dict)))

    def moves(self, variant: str) -> bool:
        """Whether its advice lowers the least time itself, while the bound is of the current work."""
        return bool({**self._texts, **self._texts.get(variant, {})}.get("moves", False))

    def measures(self, variant: str) -> bool:
        """Whether the next step of a variant is a measurement, by the table that words it."""
        own = self._texts.get(variant, {})
        return bool((own if "next" in own else self._texts).get("measures", False))

    def words(self, variant: str, lang: str) -> Words:
        """Words of a variant, falling back to the rule's own field by field."""
        return _in(lang, {**self._texts, **self._texts.get(variant, {})})

    @property
    def _texts(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = tables(f"rules/{self.test.__module__.rpartition('.')[2]}.toml")[self.name]
        return found


def _in(lang: str, texts: Mapping[str, Any]) -> Words:
    title, then, expect = (texts.get(field, ("", ""))[LANGUAGES.index(lang)] for field in ("title", "next", "expect"))
    return title, then, expect


FACTS = frozenset(
    {"compulsory_bytes", "output", "sm_count", "work_intensity", "compute_throughput", "memory_throughput"}
)
"""Needs without a counter, or only in ncu's own sections: without them a rule does not apply."""

RULES: dict[str, Rule] = {}


def rule(name: str, *needs: tuple[str, ...], level: str = KERNEL) -> Callable[[Test], Test]:
    """Register a test in RULES; raises ValueError for a duplicate name."""

    def keep(test: Test) -> Test:
        if name in RULES:
            raise ValueError(f"rule {name!r} is there twice")
        RULES[name] = Rule(name, needs or ((),), test, level)
        return test

    return keep


class Finding(msgspec.Struct, frozen=True, gc=False):
    """One reason for lost time.

    upper_bound: most seconds a call could save, at most its time minus the lower bound. ratio: that over the
    implementation's time (of "host": the caller's). likely: seconds of the bound that good kernels save. win: seconds
    of the bound that no earlier finding claims, so that wins add up: findings about a kernel and about its call claim
    the same seconds. covers: as in its Case. severity: "time" (a bound is given), "host" (the bound is on the
    caller's time, outside the device's), "hint" (no bound) or "collect" (the rule could not decide).
    """

    rule: str
    kernel: str
    impl: str
    severity: str
    evidence: tuple[Proof, ...]
    upper_bound: float
    ratio: float
    strength: float = 0.0
    params: Mapping[str, str] = {}
    variant: str = ""
    win: float = NAN
    likely: float = NAN
    covers: frozenset[str] = frozenset()

    def words(self, lang: str = "en") -> Words:
        """Title, next step and expectation; for a library's kernel, advice to its caller."""
        spoken = tables("rules/rule.toml")["spoken"].get(self.params.get("found", ""), {}).get(lang, {})
        library = self.params.get("library", "")
        if self.severity == COLLECT:
            texts = _in(lang, tables("rules/rule.toml")["inconclusive"])
        else:
            known = RULES[self.rule]
            own = f"{self.variant}@{library}"
            texts = known.words(own if own in known.variants else self.variant, lang)
            if library and own not in known.variants:
                texts = (texts[0], *_in(lang, tables("rules/rule.toml")["library"][library])[1:])
        title, then, expect = (_instead(text, spoken).format_map(self.params) for text in texts)
        return title, then, expect

    @property
    def whole(self) -> bool:
        """Whether it is about a program as a whole."""
        return self.rule in RULES and RULES[self.rule].level == PROGRAM

    @property
    def moves(self) -> bool:
        """Whether its advice lowers the least time itself, which the bound does not include."""
        return self.severity == TIME and self.rule in RULES and RULES[self.rule].moves(self.variant)

    @property
    def measures(self) -> bool:
        """Whether its advice is to measure, which saves nothing: the bound is what is left to find."""
        known = self.rule in RULES and not self.params.get("library")
        return self.severity == COLLECT or (known and RULES[self.rule].measures(self.variant))

    @property
    def title(self) -> str:
        return self.words()[0]

    @property
    def next_step(self) -> str:
        return self.words()[1]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON with the English words, NaN as None."""
        known = msgspec.structs.asdict(self) | {"evidence": [asdict(one) for one in self.evidence]}
        del known["covers"]
        known["measures"] = self.measures
        return plain(known | dict(zip(("title", "next_step", "expect"), self.words(), strict=True)))


def _instead(text: str, spoken: Mapping[str, str]) -> str:
    for words, other in spoken.items():
        text = text.replace(words, other)
    return text
