"""Next step after a run, for the page and --for agent."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analyzers.records import number
from analyzers.rules.call import BUSY
from analyzers.rules.rule import COLLECT, HOST, Finding
from analyzers.verdicts.verdict import PACED, Verdict
from collectors.caveat import SLOWED
from profkit.report.explain import runnable, start_with, unchecked, unexplained, worded
from profkit.report.messages import judged, say, translated
from profkit.report.sections.method import again
from profkit.study.study import Part, Study

AT_LOWER_BOUND = 1.1
"""Ratio to the lower bound below which the advice is to stop."""


def advice(
    study: Study, part: Part | None, mine: Sequence[Finding], *, settled: bool = False
) -> tuple[str, Finding | None]:
    """Next step and its finding: make it right, measure quietly, stop, or the first finding.

    mine: findings about the part in rank order. settled: a verdict that load cannot explain needs no other measurement.
    """
    verdict = study.verdicts.get(part.name) if part is not None else None
    if verdict is not None and no_time_counts(verdict):
        whose = say("a_mend_task" if verdict.word == "void" else "a_make_right")
        return f"{whose}{say('colon')}{judged(verdict)}", None
    told = [one for one in mine if one.severity != COLLECT]
    first = told[0] if told else None
    then = worded(first, study)[1] if first is not None else ""
    codes = [one.code for one in study.manifest.caveats] + [one.code for one in verdict.conditions] if verdict else []
    if "busy" in codes and not (settled or (verdict is not None and verdict.word in PACED)):
        quiet = say("p_quiet", command=again(study))
        then = "" if first is not None and first.variant == BUSY else then
        return (say("p_then", first=quiet, then=then) if then else quiet), first
    if at_lower_bound(part) and all(one.severity != HOST for one in told):
        return say("a_stop"), None
    if then:
        return unslowed(study, first, then), first
    return no_reason(study, mine), None


def no_reason(study: Study, mine: Sequence[Finding]) -> str:
    """Sentence that no rule found a reason, and the command that collects more counters."""
    if study.of_operators:
        return start_with(study)
    told, how = study.manifest.counters, unchecked(mine, study)[1]
    if not how and told.state != "collected":
        how = translated(told.fix) or runnable("profkit profile SAMPLE --deep", study)
    return say("a_no_reason_blind" if how else "a_no_reason", silent=unexplained(mine), how=how)


def unslowed(study: Study, first: Finding | None, then: str) -> str:
    """Advice to time without the profiler first, if it slowed the program down."""
    slowed = next((one for one in study.analysis.caveats if one.code == SLOWED), None)
    if slowed is None or first is None or first.kernel:
        return then
    return say("p_then", first=translated(slowed.fix), then=then)


def no_time_counts(verdict: Verdict) -> bool:
    return not verdict.right or verdict.word in ("void", "impossible")


def at_lower_bound(part: Part | None) -> bool | None:
    ratio = number((part.row if part is not None else None) or {}, "lower_bound_ratio")
    return ratio <= AT_LOWER_BOUND if math.isfinite(ratio) else None
