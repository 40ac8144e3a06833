"""--for sarif: verdicts and findings of runs, each at the line it is about, for code scanning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.rules.rule import COLLECT, RULES, Finding
from profkit.report import explain, sections
from profkit.report.dialect import Dialect, Written
from profkit.report.names import short_name
from profkit.report.places import Place, place_of
from profkit.report.words import say
from profkit.report.writers.sarif import ERROR, NOTE, WARNING, Notice, Result, Rule, document

if TYPE_CHECKING:
    from analyzers.verdicts.verdict import Verdict
    from profkit.study.study import Study

VERDICTS = {
    "wrong": Rule("wrong", "the answers are not the reference's", "make it right before it is made fast"),
    "failed": Rule("failed", "it could not be run to its end", "make it right before it is made fast"),
    "void": Rule("void", "the task cannot tell right from wrong", "mend the task: its inputs or its tolerance"),
    "impossible": Rule("impossible", "timed below what its own work needs", "find what was not timed, or not done"),
}
"""Verdicts that no time makes good."""


def write(runs: Sequence[str], lang: str) -> Written:
    """The log of these runs, for stdout."""
    from profkit.study.study import open_study  # pandas stays out of start-up

    studies = [open_study(run) for run in runs]
    results = [one for study in studies for one in results_of(study, lang)]
    return Written(document("report", results, [one for study in studies for one in notices_of(study)]))


def results_of(study: Study, lang: str = "en") -> Iterator[Result]:
    """The verdicts that no time makes good, then the findings that bear on the call, the largest bound first."""
    for name, verdict in study.verdicts.items():
        if verdict.word in VERDICTS:
            yield _judged(study, name, verdict, lang)
    for one in study.findings():
        if one.severity != COLLECT and not one.ratio < explain.MINOR and not _is_reference(study, one.impl):
            yield _found(study, one, lang)


def notices_of(study: Study) -> list[Notice]:
    """The doubts of a run, then the rules that no counters decided and the command that collects them."""
    sample = study.manifest.sample.id
    said = [one.what + (f": {one.how_much}" if one.how_much else "") for one in sections.doubts(study)]
    missing = [one for one in study.findings() if one.severity == COLLECT]
    found = [Notice(f"{sample}: {one}") for one in said]
    if missing:
        names = ", ".join(dict.fromkeys(one.rule for one in missing))
        step = explain.runnable(missing[0].next_step, study)
        found.append(Notice(f"{sample}: not checked, counters missing: {names}; {step}", NOTE))
    return found


def place(study: Study, impl: str, kernel: str = "") -> Place:
    """In the source; of a program its script; where neither is known the run's own file, as every result has a place."""
    known = place_of(study, impl, kernel)
    if known is not None:
        return known
    script = next((word for word in study.manifest.program if word.endswith(".py") and Path(word).is_file()), "")
    return Place(script or (study.path / "run.json").as_posix())


def _is_reference(study: Study, name: str) -> bool:
    return any(one.name == name and one.role == "reference" for one in study.manifest.impls)


def _judged(study: Study, name: str, verdict: Verdict, lang: str) -> Result:
    level = WARNING if verdict.right else ERROR
    says = f"{study.manifest.sample.id} {name}: {verdict.text(lang)}"
    return Result(VERDICTS[verdict.word], level, says, (study.manifest.sample.id, name), place(study, name))


def _found(study: Study, one: Finding, lang: str) -> Result:
    title, then, _ = explain.worded(one, lang)
    sample, kernel = study.manifest.sample.id, short_name(one.kernel) if one.kernel else ""
    whose = " ".join(word for word in (sample, one.impl, kernel) if word)
    step = say("pr_next", lang, step=explain.runnable(then, study))
    says = f"{whose}: {title}; {explain.gain(one, lang)}. {step}"
    proofs = "; ".join(explain.proof(piece) for piece in one.evidence)
    values: dict[str, float | str] = {"bound_seconds": one.upper_bound, "share_of_call": one.ratio, "evidence": proofs}
    inside = tuple(word for word in (sample, one.impl, one.kernel) if word)
    return Result(_rule(one), NOTE, says, inside, place(study, one.impl, one.kernel), values)


def _rule(one: Finding) -> Rule:
    """The rule by its own words, with dots where a finding has its numbers."""
    title, then, expect = RULES[one.rule].words("", "en")
    dots: defaultdict[str, str] = defaultdict(lambda: "...")
    return Rule(one.rule, title.format_map(dots), f"next: {then.format_map(dots)}. expect: {expect.format_map(dots)}.")


DIALECT = Dialect("sarif", write, endings=(".sarif", ".sarif.json"))
