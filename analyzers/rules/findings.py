"""Ranked findings of all rules about an analysis."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from msgspec import structs

from analyzers.rules import call, latency, memory, operators, pipes, program
from analyzers.rules.rule import COLLECT, FACTS, HINT, HOST, KERNEL, NAN, RULES, TIME, Case, Finding, Rule, Subject
from analyzers.rules.subjects import ON_A_CPU, call_subjects, kernel_subjects, program_subjects
from analyzers.timeline.budget import Budget
from analyzers.verdicts.analysis import Analysis
from analyzers.waterfall import EXCESS, Waterfall, waterfalls
from roofline.ceilings import Roofline

FILES = (call, latency, memory, operators, pipes, program)
"""Modules with rules; importing them fills RULES."""

_LEVEL = {TIME: 0, HOST: 1, HINT: 2, COLLECT: 3}


def explain(
    analysis: Analysis,
    roofline: Roofline,
    *,
    kernel: str = "",
    sms: float = NAN,
    budgets: Mapping[str, Budget] = MappingProxyType({}),
    calls: Mapping[str, Waterfall] | None = None,
    steps: Mapping[str, float] = MappingProxyType({}),
    on_cpu: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
) -> list[Finding]:
    """Ranked findings about every implementation and kernel.

    kernel: only kernels with this text in their name. sms: SMs of the device (for a CPU its threads), if missing in the
    launches. budgets: a program's wall time by part. calls: the analysis's waterfalls, if known. steps: kernel -> its
    seconds in a step (NaN if in none), if only some launches of a program were counted. on_cpu: implementation -> the
    operators of a call, and the most that other work made it `slower`.
    """
    kernels = kernel_subjects(analysis, roofline, sms)
    every = (
        _of_a_step(kernels, steps, budgets) if steps else [*call_subjects(analysis, roofline, sms, on_cpu), *kernels]
    )
    every += program_subjects(budgets, counted=any(one.values.get("dram_fraction", NAN) > 0 for one in every))
    chosen = [s for s in every if kernel in s.kernel and (s.kernel or not kernel)]
    calls = {} if steps else waterfalls(analysis) if calls is None else calls
    lower_bounds = {name: float(one.lower_bound) for name, one in calls.items()}
    times = {name: float(one.time) for name, one in calls.items()}
    if steps:
        times = dict.fromkeys((one.impl for one in kernels), sum(one.step for one in budgets.values()))
    weights = {} if steps else _weights(analysis, budgets)
    # Where the wall time of a program is known, its launches are told with that, once.
    rules = [one for one in RULES.values() if not (budgets and one.name == "launch-bound")]
    excess = {
        (name, part.kernel): (part.seconds, one.kernels[part.kernel])
        for name, one in calls.items()
        for part in one.slices
        if part.kind == EXCESS
    }
    found = examine(chosen, times, lower_bounds=lower_bounds, weights=weights, rules=rules, excess=excess)
    if len(weights) > 1:
        # Ranges stand beside each other and the whole: one base for all.
        total = float(analysis.hottest["time"].sum())
        found = [_of_all(one, times.get(one.impl, NAN) / total) if one.impl in weights else one for one in found]
    # A CPU has no counters to collect.
    return [one for one in found if one.severity != COLLECT] if analysis.method == ON_A_CPU else found


def _of_a_step(kernels: Iterable[Subject], steps: Mapping[str, float], budgets: Mapping[str, Budget]) -> list[Subject]:
    """Kernels with the seconds of a step instead of the counted ones."""
    counted: dict[str, float] = {}
    for one in kernels:
        counted[one.kernel] = counted.get(one.kernel, 0.0) + one.time
    found = next((one.steady.found for one in budgets.values()), "")
    told = []
    for one in kernels:
        seconds = steps.get(one.kernel, NAN)
        scale = seconds / counted[one.kernel] if seconds > 0 and counted[one.kernel] > 0 else 0.0
        told.append(replace(one, scale=scale, text={**one.text, "found": found}))
    return told


def _weights(analysis: Analysis, budgets: Mapping[str, Budget]) -> dict[str, float]:
    """Range -> its share of a program's wall time, else of its kernels' time, to rank by."""
    window = sum(one.window for one in budgets.values())
    if analysis.reference or "time" not in analysis.hottest:
        return {}
    computing = sum(one.computing for one in budgets.values()) / window if window > 0 else 1.0
    total = float(analysis.hottest["time"].sum())
    return {name: computing * float(row["time"]) / total for name, row in analysis.rows.items() if total > 0}


def _of_all(one: Finding, share: float) -> Finding:
    """A finding about a range as a share of all kernels' time; its range has `share` of that."""
    if one.severity != TIME:
        return one
    return structs.replace(one, ratio=one.ratio * share, params={"found": "launches", **one.params})


def examine(
    subjects: Iterable[Subject],
    totals: Mapping[str, float],
    *,
    lower_bounds: Mapping[str, float] = MappingProxyType({}),
    weights: Mapping[str, float] = MappingProxyType({}),
    rules: Iterable[Rule] | None = None,
    excess: Mapping[tuple[str, str], tuple[float, float]] = MappingProxyType({}),
) -> list[Finding]:
    """Findings of all rules: gains first, then hints, then counters to collect.

    totals: seconds of one call by implementation, the base of `ratio`; lower bounds: seconds that no gain goes below;
    weights: factor on the ratio of an implementation for ranking, default 1; excess: (implementation, kernel) -> its
    seconds of a call above its ceilings, which a finding that reaches them could gain, and all of them.
    """
    chosen, known = tuple(RULES.values() if rules is None else rules), list(subjects)
    names = tuple({name for one in chosen for group in one.needs for name in group})
    collected = [frozenset(name for name in names if (value := subject[name]) == value) for subject in known]
    decidable = cache(lambda level, have: [one for one in chosen if one.level == level and one.decidable(have)])
    least = {impl: bound for impl, bound in lower_bounds.items() if not math.isnan(bound)}
    found: list[Finding] = []
    for subject, have in zip(known, collected, strict=True):
        total, lower_bound = totals.get(subject.impl, subject.time), least.get(subject.impl, 0.0)
        for one in decidable(subject.level, have):
            if (case := one.test(subject)) is not None:
                above = excess.get((subject.impl, subject.kernel)) if case.after == subject.least() else None
                found.append(_finding(one, subject, case, total, lower_bound, above))
    ranked = sorted(found, key=lambda one: _rank(one, weights.get(one.impl, 1.0)))
    return [*_claimed(ranked, known, totals, least), *_inconclusive(known, collected, chosen)]


def _rank(finding: Finding, weight: float) -> tuple[float, ...]:
    gain = 0.0 if math.isnan(finding.likely) else finding.likely
    share = finding.ratio * gain / finding.upper_bound if finding.upper_bound > 0 else 0.0
    # Gains within 2 % of the call are one rank: then the stronger evidence speaks first.
    step = round(weight * share / 0.02) if share == share else 0
    return (_LEVEL[finding.severity], -step, -finding.strength, -gain)


def _claimed(
    findings: Iterable[Finding],
    subjects: Iterable[Subject],
    totals: Mapping[str, float],
    lower_bounds: Mapping[str, float],
) -> list[Finding]:
    """Findings with `win`: the part of their bound that no earlier finding claims."""
    known = {(s.impl, s.kernel): s.time * s.scale for s in subjects}
    left = {impl: totals.get(impl, known.get((impl, ""), 0.0)) - lower_bounds.get(impl, 0.0) for impl, _ in known}
    parts, claimed = _parts(known), defaultdict[tuple[str, str], float](float)
    told = []
    for one in findings:
        if one.severity == TIME:
            seconds = parts.get(one.impl, {})
            mine = seconds.keys() & ({one.kernel} if one.kernel else seconds) & (one.covers or seconds.keys())
            above = sum(claimed[one.impl, name] for name in mine)
            # The slices of a program's step are nobody else's; its bounds are.
            most = one.likely if one.whole else one.upper_bound - above
            one = structs.replace(one, win=max(0.0, min(most, left[one.impl])))
            left[one.impl] -= one.win
            for name in mine:
                # What a finding about the call covers it claims whole.
                claimed[one.impl, name] = claimed[one.impl, name] + one.win if one.kernel else seconds[name]
        told.append(one)
    return told


def _parts(known: Mapping[tuple[str, str], float]) -> dict[str, dict[str, float]]:
    """Implementation -> seconds of its kernels, and under "" of the time between them."""
    found = defaultdict[str, dict[str, float]](dict)
    for (impl, name), seconds in known.items():
        if name:
            found[impl][name] = seconds
    for impl, mine in found.items():
        mine[""] = max(0.0, known.get((impl, ""), 0.0) - sum(mine.values()))
    return found


def _finding(
    one: Rule, subject: Subject, case: Case, total: float, lower_bound: float, above: tuple[float, float] | None
) -> Finding:
    gain = max(0.0, subject.time - case.after) * subject.scale if above is None else above[0]
    gain = gain if case.severity in (TIME, HOST) else NAN
    if case.severity == TIME:
        gain = min(gain, max(0.0, total - lower_bound))
    likely = gain
    if not math.isnan(case.likely):
        likely = min(gain, max(0.0, subject.time - case.likely) * subject.scale)
    library = {"library": subject.text["library"]} if subject.text.get("library") else {}
    # What a program's kernel loses is told of the step, or of whatever else was found to repeat.
    of = {"found": subject.text["found"]} if "found" in subject.text else {}
    if above is not None and not math.isnan(case.share):
        # By the clock of the call, as everywhere else.
        by_call = case.share * subject.time / above[1]
        proofs = tuple(replace(one, value=by_call) if one.value == case.share else one for one in case.proofs)
        case = replace(case, share=by_call, proofs=proofs)
    if not math.isnan(case.share):
        told = {"share": f"{case.share:.0%}", "left": f"{max(0.0, 1 - case.share):.0%}"}
        case = replace(case, params={**case.params, **told})
    total += gain if case.severity == HOST else 0.0
    return Finding(
        one.name,
        subject.kernel or case.kernel,
        subject.impl,
        case.severity,
        case.proofs,
        gain,
        gain / total if total > 0 else NAN,
        case.strength,
        {**of, **case.params, **library},
        case.variant,
        likely=likely,
        covers=case.covers,
    )


def _inconclusive(
    subjects: Sequence[Subject], collected: Sequence[frozenset[str]], rules: tuple[Rule, ...]
) -> list[Finding]:
    """A finding for each rule that lacked counters for all kernels of an implementation."""
    by_impl = defaultdict[str, set[str]](set)
    for subject, have in zip(subjects, collected, strict=True):
        if not subject.whole:
            by_impl[subject.impl] |= have if subject.kernel else set()
    # A range without kernels has but those of the ranges inside it, or copies alone.
    asked = [mine for mine in by_impl.items() if mine[1] or not any(by_impl.values())]
    lacking = {
        (impl, one.name): ", ".join(name for name in one.needs[0] if name not in FACTS | mine)
        for impl, mine in asked
        for one in rules
        if one.level == KERNEL and not one.decidable(mine)
    }
    return [
        Finding(name, "", impl, COLLECT, (), NAN, NAN, 0.0, {"rule": name, "counters": counters})
        for (impl, name), counters in lacking.items()
        if counters
    ]
