"""Caveats of a run's numbers, and failures in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzers.verdicts.verdict import brief
from collectors.caveat import SLOWED
from profkit.report.messages import language, say, translated
from profkit.report.sections.method import placed

if TYPE_CHECKING:
    from collectors.caveat import Caveat
    from collectors.sanitizer import Finding
    from profkit.rundir.manifest import Impl
    from profkit.study.study import Study

ASIDE = (
    "fp16-vectors",
    "lower-bound-without-launch",
    "no-counters",
)
"""Caveats that affect neither correctness, speed-up nor the time."""
FRAGILE = "fragile"
"""Code of the caveat that a candidate is wrong for some inputs; it matters for every candidate."""
OF_ROOFS = ("datasheet-roofs",)
"""Caveats about ceilings; left out if nothing is compared with a ceiling."""

APART = ("apart", "windows", "programs")
"""Caveats that leave two times incomparable."""
_WEIGHTY = (*APART, "other-work", "busy", SLOWED, "single", "too-few-steps")
"""Caveats that may turn a verdict, the weightiest first."""


@dataclass(frozen=True)
class Said:
    """A caveat as text; `about`: its parts, "" for the whole run."""

    what: str
    how_much: str
    fix: str
    about: tuple[str, ...] = ()
    code: str = ""

    @classmethod
    def of(cls, one: Caveat) -> Said:
        """One caveat, translated to the current language."""
        return cls(translated(one.what), translated(one.how_much), translated(one.fix), (one.about,), one.code)

    def line(self) -> str:
        """The problem and its size."""
        return self.what + (say("colon") + self.how_much if self.how_much else "")

    def with_fix(self) -> str:
        """The line, and the fix in brackets."""
        return self.line() + (say("caveat_fix", fix=self.fix) if self.fix else "")


def all_caveats(study: Study) -> list[Said]:
    """Each caveat once; one about several parts lists each part with its amount.

    FRAGILE has one line per candidate.
    """
    groups: dict[tuple[str, str, str, str], list[tuple[str, str]]] = {}
    names = sorted((part.name for part in study.parts if part.name), key=len, reverse=True)
    roofs = placed(study)
    for one in study.analysis.caveats:
        if one.code in OF_ROOFS and not roofs:
            continue
        about = one.about or next((name for name in names if one.what.startswith(f"{name}: ")), "")
        what = one.what.removeprefix(f"{about}: ") if about else one.what
        apart = about if one.code == FRAGILE else ""
        groups.setdefault((what, one.fix, one.code, apart), []).append((about, one.how_much))
    return [_told(what, fix, code, concerned) for (what, fix, code, _), concerned in groups.items()]


def that_matter(study: Study) -> list[Said]:
    """Caveats of the best candidate, the reference and the run, without minor ones.

    FRAGILE counts for all candidates.
    """
    best = concerning(study, study.best.name if study.best is not None else "")
    return [one for one in all_caveats(study) if one.code == FRAGILE or one in best]


def concerning(study: Study, name: str) -> list[Said]:
    """Caveats about a part, the reference or the whole run, without those in ASIDE."""
    mine = {"", study.analysis.reference, name}
    return [one for one in all_caveats(study) if one.code not in ASIDE and mine & set(one.about)]


def weightiest(told: Sequence[Said]) -> list[Said]:
    """Caveats, those that may turn the verdict first."""
    return sorted(told, key=lambda one: _WEIGHTY.index(one.code) if one.code in _WEIGHTY else len(_WEIGHTY))


def _told(what: str, fix: str, code: str, concerned: Sequence[tuple[str, str]]) -> Said:
    about = tuple(name for name, _ in concerned)
    what, fix = translated(what), translated(fix)
    amounts = [(name, translated(how_much)) for name, how_much in concerned]
    if len(amounts) == 1:
        ((name, how_much),) = amounts
        return Said(f"{name}{say('colon')}{what}" if name else what, how_much, fix, about, code)
    told = [(say("colon") if language() == "zh" else " ").join(part for part in pair if part) for pair in amounts]
    return Said(what, say("semicolon").join(told), fix, about, code)


def more_caveats(study: Study) -> str:
    """Sentence with the number of other caveats; "" for none."""
    count = len(all_caveats(study)) - len(that_matter(study))
    key = "more_caveats_impls" if study.manifest.impls else "more_caveats"
    return say(key, count=str(count)) if count else ""


def sanitizer_lines(study: Study) -> list[str]:
    """compute-sanitizer's faults, and one line per clean candidate."""
    found = []
    for impl in study.manifest.candidates:
        clean = ", ".join(one.tool for one in impl.sanitized if one.state == "clean")
        found += [f"{impl.name}: clean under {clean}"] if clean else []
        for one in impl.sanitized:
            found += [f"{impl.name}: {_fault(finding)}" for finding in one.findings]
            found += [f"{impl.name}: {one.tool} could not check it: {one.why}"] if one.state == "failed" else []
    return found


def _fault(one: Finding) -> str:
    told = [f"{one.tool}: {one.kind} in {one.kernel or 'no kernel'}", f" at {one.place}" if one.place else ""]
    told += [f", {one.count} times", f", {one.severity}" if one.severity != "error" else ""]
    return "".join([*told, "" if one.own else ", a library's kernel", f" ({one.detail})" if one.detail else ""])


def last_lines(study: Study) -> list[tuple[Impl, str]]:
    """Failed implementations with their last lines of output."""
    gone = [impl for impl in study.manifest.impls if not impl.ok and impl.status != "skipped"]
    whole = [(impl, impl.reason if brief(impl.reason) != impl.reason else "") for impl in gone]
    told = [(impl, "\n".join(part for part in (impl.tail, reason) if part)) for impl, reason in whole]
    return [(impl, text) for impl, text in told if text]
