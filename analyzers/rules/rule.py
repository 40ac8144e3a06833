"""What a rule is, what it looks at, and what it finds.

A rule is a function of one Subject (a kernel of an implementation, or an implementation as a whole). It returns a
Case when its evidence holds, else None. What could be won is an upper bound: the time now less the least time the
roofline still demands after the fix, never an estimate of what will be won. Its words stand in the TOML file beside its
module, by rule and variant: title, next step, expectation; places in braces are the parameters that its Case gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from analyzers.records import plain, tables

NAN = math.nan
SCHEMA = "profkit-explain/1"
LANGUAGES = ("en", "zh")
KERNEL, CALL, PROGRAM = "kernel", "call", "program"
"""Levels: what a rule looks at."""
TIME, HOST, HINT, COLLECT = "time", "host", "hint", "collect"
"""Severities, in the order they are told: a bound on device time, on the caller's time, none, inconclusive."""

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
    """What a rule looks at.

    kernel: "" for an implementation as a whole. time: seconds of one call. roofs: seconds needed at each
    ceiling (pipes and memory levels). values: counters, metrics and facts by name; text: names of pipes.
    peaks: the ceilings themselves. scale: timed over counted seconds, where counting made it slower. whole: it is a
    program, `time` the wall time of one of its steps. moving: of a call, its kernels that move data rather than compute.
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
        """Seconds the roofline demands: the longest known ceiling but those left out, or replaced."""
        times = {**{n: t for n, t in self.roofs.items() if n not in without}, **instead}
        return max((t for t in times.values() if not math.isnan(t)), default=0.0)

    @property
    def nearest(self) -> tuple[str, float]:
        """The ceiling that is used most, and its share of the time."""
        known = {name: t for name, t in self.roofs.items() if t > 0}
        name = max(known, key=lambda n: known[n], default="")
        return name, known[name] / self.time if name and self.time > 0 else NAN


@dataclass(frozen=True)
class Case:
    """What a rule found: its evidence, the least time after the fix [s], the words' parameters.

    strength: how far beyond its threshold the evidence is (0..1); it only orders equal gains. variant: which of the
    rule's texts applies. likely: seconds after the fix in good kernels, where more than `after`; findings rank by it.
    kernel: of a call, the one it is about. covers: kernels of a call that it explains, "" for the gaps; empty:
    all of the call. share: of the ceiling that binds, which the words give as "share". whole: seconds that the bound is a share of, where not the subject's time: the step unrecorded.
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
    whole: float = NAN


Test: TypeAlias = "Callable[[Subject], Case | None]"


@dataclass(frozen=True)
class Rule:
    """Named test. needs: any complete group of counters; level: KERNEL, CALL, PROGRAM."""

    name: str
    needs: tuple[tuple[str, ...], ...]
    test: Test
    level: str = KERNEL

    def decidable(self, subject: Subject) -> bool:
        return any(subject.has(*group) for group in self.needs)

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of its variants, "" for the rule's own words."""
        return ("", *(name for name, value in self._texts.items() if isinstance(value, dict)))

    def moves(self, variant: str) -> bool:
        """Whether its advice lowers the least time itself: the bound is of the work as it is."""
        return bool({**self._texts, **self._texts.get(variant, {})}.get("moves", False))

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
"""Needs that no counter gives, or ncu's own sections alone: a rule that lacks them does not apply."""

RULES: dict[str, Rule] = {}


def rule(name: str, *needs: tuple[str, ...], level: str = KERNEL) -> Callable[[Test], Test]:
    """Put a test into RULES; raises ValueError when the name is taken."""

    def keep(test: Test) -> Test:
        if name in RULES:
            raise ValueError(f"rule {name!r} is there twice")
        RULES[name] = Rule(name, needs or ((),), test, level)
        return test

    return keep


@dataclass(frozen=True)
class Finding:
    """One reason why time is lost.

    upper_bound: most seconds a call could win, never more than lie between its time and the lower bound. ratio: that over
    the implementation's time (of "host": the caller's). likely: seconds of the bound that good kernels win.
    win: seconds of the bound that no earlier finding claims, so that wins add up: findings about a kernel and about its
    call claim the same seconds. covers: as in its Case.
    recorded: of a program, the bound over its step as recorded, while `ratio` is over the step unrecorded, at least; else NaN.
    severity: "time" (a bound is given), "host" (the bound is on the caller's time, outside the device's),
    "hint" (no bound) or "collect" (the rule could not decide).
    """

    rule: str
    kernel: str
    impl: str
    severity: str
    evidence: tuple[Proof, ...]
    upper_bound: float
    ratio: float
    strength: float = 0.0
    params: Mapping[str, str] = field(default_factory=dict)
    variant: str = ""
    win: float = NAN
    likely: float = NAN
    covers: frozenset[str] = frozenset()
    recorded: float = NAN

    def words(self, lang: str = "en") -> Words:
        """Title, next step and expectation; of a library's kernel what its callers can do."""
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
    def moves(self) -> bool:
        """Whether its advice lowers the least time itself, so that the bound is not of the advice."""
        return self.severity == TIME and self.rule in RULES and RULES[self.rule].moves(self.variant)

    @property
    def title(self) -> str:
        return self.words()[0]

    @property
    def next_step(self) -> str:
        return self.words()[1]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON with the English words, NaN as None."""
        known = asdict(self)
        del known["covers"]
        return plain(known | dict(zip(("title", "next_step", "expect"), self.words(), strict=True)))


def _instead(text: str, spoken: Mapping[str, str]) -> str:
    for words, other in spoken.items():
        text = text.replace(words, other)
    return text
