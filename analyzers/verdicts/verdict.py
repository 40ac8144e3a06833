"""Verdict on an implementation: one word, its interval, and its conditions.

The words, in the order in which they are decided:

    skipped      it was not run, and why
    failed       it did not run to its end (the kind: crash, hang, compile-error, ...)
    wrong        its answers differ from the reference's, or from its own earlier ones (mismatch, unsound, ...)
    void         the task cannot tell right from wrong: a trivial answer passes, or the reference is random
    impossible   its own counted work needs longer than the measured time
    inconclusive    the interval of the speed-up includes both faster and slower
    faster, slower, same

Speed-ups are reference time / time, above 1 if faster. A condition is part of the same sentence; one that `spoils` it
voids a win. A program's ranges have no verdict, as nothing is compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from analyzers.records import plain, tables
from analyzers.verdicts.speedup import SLACK, THRESHOLD
from roofline.units import digits

NAN = math.nan

WORDS = ("skipped", "failed", "wrong", "void", "impossible", "inconclusive", "faster", "slower", "same")
PACED = ("faster", "slower", "same")
"""Verdicts that carry a speed-up."""
BROKE = ("compile-error", "load-error", "error", "crash", "corrupt", "hang", "memory-limit")
"""States of an implementation that did not run to its end; every other bad state is wrong."""
WIDE = 0.05
"""Relative half-width of an interval from which the sentence mentions it."""
FAR = 0.1
"""Speed-up below which the sentence inverts it: 112x as long, not 0.00893x."""
LONGEST = 120
"""Most characters of foreign text in a sentence; `Verdict.why` has all of it."""


Translation: TypeAlias = "Callable[[str], str]"
"""English sentence -> the same in another language."""


_SENTENCES = "verdicts/verdict.toml"
"""Word or condition -> (English, Chinese)."""

SPOILS = ("reduced", "unexplained")
_COMPARED = re.compile(r"output|\d+ outputs?, the reference")
"""Start of a comparison's message; any other message is the implementation's own."""
_CRASHED = re.compile(
    r"the process of .+ has ended|.*\bCUDA\b.*(illegal|misaligned address|unspecified launch failure|device-side assert"
    r"|invalid program counter|hardware stack error|launch timed out)",
    re.I,
)
"""Failures that are no refusal: a dead process, or a sticky GPU error."""
_DID = {"crashes on": _CRASHED, "hangs on": re.compile(r"no answer within "), "wrong for": _COMPARED}
"""Effect -> start of its note; any other note is a refusal."""


class Condition(msgspec.Struct, frozen=True):
    """Condition of a verdict: a name in verdict.toml and the values of its sentence."""

    code: str
    values: dict[str, str] = {}

    @property
    def spoils(self) -> bool:
        """Whether a win under it does not count."""
        return self.code in SPOILS

    def text(self, lang: str = "en", translated: Translation = str) -> str:
        """Sentence of the condition; `translated`: values in that language."""
        values = {key: brief(translated(one)) for key, one in self.values.items()}
        return str(tables(_SENTENCES)["condition"][self.code][lang == "zh"]).format(**values)


def brief(text: str) -> str:
    """Text on one line, cut after LONGEST characters."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 3].rstrip() + "..."


def weakness(notes: Sequence[str]) -> str:
    """Weakness on unusual inputs, "crashes on 1 unusual weight, wrong for 2"; "" without.

    notes: "the input: effect"; an exception is a refusal, unless it is a crash.
    """
    counts: dict[tuple[str, str], int] = {}
    for note in notes:
        name, _, what = note.partition(": ")
        did = next((said for said, like in _DID.items() if like.match(what)), "refuses")
        key = did, "unusual weight" if name.startswith("weights where") else "unusual input"
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(f"{did} {n} {kind}{'s' if n > 1 else ''}" for (did, kind), n in sorted(counts.items()))


class Verdict(msgspec.Struct, frozen=True):
    """Verdict on an implementation. `kind`: status of failed and wrong; evidence of void.

    `why`: one line. `speedup` with its 95 % interval: NaN unless compared.
    """

    impl: str
    word: str
    kind: str = ""
    why: str = ""
    speedup: float = NAN
    low: float = NAN
    high: float = NAN
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        if self.word and self.word not in WORDS:
            raise ValueError(f"{self.word!r} is no verdict's word: {', '.join(WORDS)}")

    @property
    def right(self) -> bool:
        """Whether its answers were compared and agree with the reference's."""
        return self.word not in ("skipped", "failed", "wrong")

    @property
    def wins(self) -> bool:
        """Whether it counts as faster."""
        return self.word == "faster" and not any(one.spoils for one in self.conditions)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON with the English sentence as `line`; unknown numbers are None."""
        return {**plain(self), "wins": self.wins, "line": self.text()}

    def text(self, lang: str = "en", translated: Translation = str, without: Sequence[str] = ()) -> str:
        """The verdict as a sentence without the name; `without`: codes of conditions to leave out."""
        told = self._said(lang, self._interval(), *(brief(translated(one)) for one in (self.kind, self.why)))
        reason = self._reason
        rest = [one.text(lang, translated) for one in self.conditions if one is not reason and one.code not in without]
        if reason is not None and reason.code not in (*without, "few", "near"):
            rest.insert(0, brief(translated(next(iter(reason.values.values())))))
        return ("，" if lang == "zh" else ", ").join([told, *rest])

    def headline(self, lang: str = "en") -> str:
        """The word and the speed-up, "slower: 0.483x"."""
        return self._said(lang, "", self.kind, self.why)

    def _said(self, lang: str, interval: str, kind: str, why: str) -> str:
        colon = "：" if lang == "zh" else ": "
        known, one = tables(_SENTENCES), self._reason
        told = str(known["far"]["slower"][lang == "zh"]) if self._far else "{}x"
        (times,) = self._told(self.speedup)
        value = colon + told.format(digits(times)) if math.isfinite(times) else ""
        reason = "" if one is None else str(known["reason"][one.code][lang == "zh"]).format(**one.values)
        return str(known["verdict"][self.word][lang == "zh"]).format(
            value=value + interval, kind=kind, why=why, reason=reason
        )

    @property
    def _far(self) -> bool:
        """Whether the sentence inverts the speed-up, see FAR."""
        return self.word == "slower" and 0 < self.speedup < FAR

    def _told(self, *speedups: float) -> list[float]:
        return [1 / one for one in reversed(speedups)] if self._far else list(speedups)

    @property
    def _reason(self) -> Condition | None:
        """Why it is inconclusive, if its interval does not show it."""
        known = tables(_SENTENCES)["reason"] if self.word == "inconclusive" else {}
        return next((one for one in self.conditions if one.code in known), None)

    def _interval(self) -> str:
        """ " [2.75, 2.86]"; "" if two clocks disagree or it is narrower than the last digit."""
        if not math.isfinite(self.low + self.high) or any(one.code == "clocks" for one in self.conditions):
            return ""
        low, high = map(digits, self._told(self.low, self.high))
        return f" [{low}, {high}]" if low != high or self.word == "inconclusive" else ""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence for a verdict on one implementation; unknown fields keep their default.

    `status`, `reason`: of the check (ok, mismatch, crash, ...). `unsound`: errors that compute-sanitizer found in its
    kernels. `passing`: trivial answers that pass; `random`: the reference is random. `still`: outputs equal for all
    inputs. `ratio`: verdict of the speed-up's interval. `clocks`: contradicting speed-ups of two clocks. `caller`: the
    speed-up for a waiting caller, if it differs; `by_caller`: only the caller's clock saw work on both sides. `load`,
    `slower`: contention, and the factor by which it may have slowed a side. `time` [s] of a call; `hard` [s]: least
    time by the task's model; `counted_hard` [s]: by its own counted work, NaN without counters; `share`: counted work
    over the model's. `used`, `task`: a precision below the task's, unless allowed. `own_ran`: whether one of its own
    kernels ran (None: unknown); `unbuilt`: its extension did not compile; `switched`: it changes torch's settings in
    its calls. `fragile`: notes on unusual inputs that it fails on or refuses; `untried`: some were skipped for lack of
    time. `served`: conditions of a speed-up over a program's shapes.
    """

    impl: str
    status: str = "ok"
    reason: str = ""
    unsound: Sequence[str] = ()
    passing: Sequence[str] = ()
    random: bool = False
    ratio: str = ""
    speedup: float = NAN
    low: float = NAN
    high: float = NAN
    clocks: str = ""
    time: float = NAN
    hard: float = NAN
    counted_hard: float = NAN
    share: float = NAN
    used: str = ""
    task: str = ""
    own_ran: bool | None = None
    unbuilt: bool = False
    by_caller: bool = False
    caller: str = ""
    slower: float = 1.0
    load: str = ""
    switched: bool = False
    fragile: Sequence[str] = ()
    still: Sequence[str] = ()
    untried: bool = False
    served: Sequence[Condition] = ()


def decide(known: Evidence) -> Verdict:
    if known.status == "skipped":
        # The sentence says that it was not run; the reason, which also stands by itself, may begin so.
        return Verdict(known.impl, "skipped", "skipped", known.reason.removeprefix("not run: "))
    if known.status in BROKE:
        return Verdict(known.impl, "failed", known.status, known.reason)
    # Of a random task a candidate may draw other numbers, as rightly.
    if known.status != "ok" and not (known.random and known.status == "mismatch"):
        return Verdict(known.impl, "wrong", known.status, known.reason)
    if known.unsound:
        return Verdict(known.impl, "wrong", "unsound", known.unsound[0])
    if known.random or known.passing:
        shown = "the reference's answers are random" if known.random else f"{', '.join(known.passing)} would pass"
        return _paced(known, "void", shown, below=False)
    below = known.time < known.hard * (1 - SLACK)
    if below and known.time < known.counted_hard * (1 - SLACK):
        needs = f"{known.time / known.counted_hard:.2f} of the least time that its own counted work needs"
        return _paced(known, "impossible", needs, below=False)
    word = known.ratio if known.ratio in PACED else "inconclusive"
    if word in ("faster", "slower") and max(known.speedup, 1 / known.speedup) <= known.slower:
        return _paced(known, "inconclusive", below=below, busy=True)
    return _paced(known, word, below=below)


def _paced(known: Evidence, word: str, kind: str = "", *, below: bool, busy: bool = False) -> Verdict:
    """Verdict on a correct implementation that was timed."""
    open_ = word == "inconclusive" and not busy
    crosses = known.low <= 1 <= known.high
    few = known.low > 1 + THRESHOLD or known.high < 1 / (1 + THRESHOLD)
    near = not few and not crosses and math.isfinite(known.low + known.high)
    half = (known.high - known.low) / 2 / known.speedup if known.speedup > 0 else NAN
    busy = busy or (open_ and crosses and half > WIDE and known.slower > 1 and not known.clocks)
    counted = math.isfinite(known.counted_hard)
    pace = _holding(
        (busy, "busy", {"load": known.load}),
        (open_ and known.clocks, "clocks", {"said": known.clocks}),
        (open_ and not known.clocks and few, "few", {}),
        (open_ and not known.clocks and near, "near", {"least": f"{THRESHOLD:.0%}"}),
        (known.caller and word not in ("void", "impossible"), "waits", {"value": known.caller}),
    )
    rest = _holding(
        (known.used, "reduced", {"used": known.used, "task": known.task}),
        (known.own_ran is False, "unbuilt" if known.unbuilt else "library", {}),
        (known.by_caller, "caller", {}),
        (below and counted, "algorithm", {"share": f"{known.share:.2g}"}),
        (below and not counted, "unexplained", {}),
        (WIDE < half <= 1, "wide", {"half": f"{half:.0%}"}),
        (half > 1, "wider", {}),
        (known.switched, "switched", {}),
        (known.fragile, "fragile", {"what": weakness(known.fragile)}),
        (known.still, "still", {"what": ", ".join(known.still)}),
        (known.untried, "untried", {}),
    )
    conditions = (*pace, *known.served, *rest)
    return Verdict(known.impl, word, kind, "", known.speedup, known.low, known.high, conditions)


def _holding(*conditions: tuple[object, str, dict[str, str]]) -> list[Condition]:
    return [Condition(code, values) for holds, code, values in conditions if holds]
