"""report.html of one run: first screen (verdict, cards, table, notes) and sections."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analyzers.placement import NEAR as PLACED
from analyzers.records import number
from analyzers.rules.call import BUSY, held_up
from analyzers.rules.rule import COLLECT, HINT, Finding
from analyzers.rules.subjects import ON_A_CPU, ceiling_shares, threads_busy
from analyzers.timeline.budget import Budget
from analyzers.verdicts.verdict import PACED, Verdict
from analyzers.waterfall import SLICE_KINDS
from profkit.report.explain import gain, unchecked, unlooked, worded
from profkit.report.layout import cut
from profkit.report.messages import bound_why, judged, language, named, say, translated
from profkit.report.names import short_name
from profkit.report.page.data import (
    Shown,
    data_of,
    falls_of,
    findings_of,
    samples_of,
    shares_of,
    shown_of,
    walls_of,
)
from profkit.report.page.frame import render
from profkit.report.page.timeline import timeline_of
from profkit.report.sections import answer, caveats, method, tables
from profkit.report.sections.advice import advice, no_reason, unslowed
from profkit.report.waterfall import apart, blocks, shown
from profkit.rundir.manifest import Impl
from profkit.study.study import Part, Study
from roofline import units

MOST_FALLS = 12
SECOND = 0.25
"""Share of a step's wall time from which a kernel without a finding is the second lead."""
CARDS_TELL = ("busy", "clocks", "wide", "wider", *answer.CLOCKS)
"""Conditions shown on a card, or behind the times, and left out of the verdict above."""
NEAR = 0.8
"""Share of a ceiling from which a kernel without a finding counts as near it."""


@dataclass(frozen=True)
class Card:
    """A question, its answer and evidence; `share`: length of the bar, NaN for no bar."""

    question: str
    answer: str
    note: str = ""
    share: float = math.nan
    kind: str = ""
    link: str = ""

    @property
    def bar(self) -> str:
        return f"{min(1.0, self.share):.1%}" if math.isfinite(self.share) else ""


def page(study: Study) -> str:
    """The whole page, opened in the current language; the reader can switch."""
    drawn = shown_of(study)
    best = study.best.name if study.best is not None else ""
    data = {
        **data_of(drawn, best=best),
        "timelines": [found] if (found := timeline_of(study)) else [],
        "timings": samples_of(drawn),
    }
    return render("page.html", data, lambda: _values(study, drawn, data))


def _values(study: Study, drawn: Sequence[Shown], data: Mapping[str, Any]) -> dict[str, Any]:
    """Template values in the current language."""
    inside, rows = tables.echoes(study), data["kernels"]
    found = study.findings()
    has_roofline = method.placed(study)
    matter = caveats.that_matter(study)
    falls = has_roofline or not study.stepwise
    now = say("p_now" if study.manifest.impls else "p_now_counted" if study.stepwise else "p_now_gpu")
    again = method.again(study)
    facts = method.facts(study)
    # Implementations as ranked, of ranges the longest first.
    ranked = [part for part in drawn if part.impl in study.waterfalls and part.impl not in inside]
    if not study.manifest.impls:
        ranked.sort(key=lambda part: -study.waterfalls[part.impl].time)
    return {
        "title": answer.what(study),
        "subtitle": _subtitle(study),
        "answer": _first_screen(study, found),
        "shares": _shares(study),
        "falls": list(falls_of(ranked[:MOST_FALLS], now, rows, found)) if falls else [],
        "budgets": list(walls_of(study, found, rows)),
        "holes": tables.holes_tables(study),
        "has_timeline": bool(data["timelines"]),
        "on_gpu": not study.of_operators,
        "listed": say("op_list" if study.by_operator else "p_kernels"),
        "timeline": list(tables.thread_lines(study)),
        "told": list(findings_of(study, found)),
        "ranked": any(one.severity != COLLECT for one in found),
        "has_roofline": has_roofline,
        # Without FLOP there is nothing to plot: the page has bars of bandwidth, and says so.
        "plotted": not rows or any((one["flops"] or 0) > 0 for one in rows),
        "kernel_note": tables.kernel_note(study),
        "timed": bool(data["timings"]),
        "timing": method.timing_line(study),
        "impls": bool(study.manifest.impls),
        "facts": facts,
        "again": again,
        "facts_fold": say("comma").join(dict.fromkeys([*(key for key, _ in facts), *[say("p_again")][: bool(again)]])),
        "matter": matter,
        "other": [one for one in caveats.all_caveats(study) if one not in matter],
        "version": study.manifest.profkit,
    }


def _shares(study: Study) -> list[dict[str, Any]]:
    """Time by kind of a step, of the best implementation, or of all ranges together."""
    whole, falls = shown(study, most=0), study.waterfalls
    if whole is None or study.overlapping:
        return []
    every, time = whole.blocks, whole.time
    if not study.manifest.impls and study.first_step is None:
        outer = [name for name in falls if "/" not in name or name.rpartition("/")[0] not in falls]
        every = [one for name in outer for one in blocks(study, name)]
        every.sort(key=lambda one: -SLICE_KINDS.index(one.kind))
        time = sum(falls[name].time for name in outer)
    told = shares_of(every, time)
    return told if len(told) > 1 else []


def _subtitle(study: Study) -> str:
    """Inputs, command or files, path and date."""
    manifest, sample = study.manifest, study.manifest.sample
    made = say("p_imported" if sample.kind == "import" else "p_measured", created=manifest.created)
    files = say("listed").join(f"{one.origin} ({one.tool})" for one in manifest.captures if one.origin)
    command = shlex.join(manifest.program)
    inputs = say("p_given", inputs=say("comma").join(manifest.inputs)) if manifest.inputs else ""
    told = (inputs, sample.path, cut(command, 90), cut(files, 120), made)
    return say("comma").join(part for part in told if part)


# ---- the first screen


def _first_screen(study: Study, found: Sequence[Finding]) -> dict[str, Any]:
    first, best, cards = answer.sentences(study), study.best, list[Card]()
    (own, lead), *others = sorted(first, key=lambda one: best is not None and one[0] != best.name)
    skipped = [one.name for one in study.manifest.candidates if one.status == "skipped"]
    # What the table says, too: a candidate that was timed and is right.
    told = ("faster", "slower", "same", "inconclusive")
    tabled = [name for name, one in study.verdicts.items() if one.word in told]
    lines = [line for name, line in others if name not in (*skipped, *tabled)]
    notes = [method.counters_note(study), *method.notes(study)]
    notes += [line for name, line in others if name in skipped]
    rules, command = unchecked((one for one in found if best is None or best.name == one.impl), study)
    if rules and method.counted(study):
        notes.append(say("p_unchecked", rules=say("listed").join(map(named, rules))) + " " + command)
    whole = study.first_step
    notes += [say("p_baseline")] if whole is not None else []
    if len(study.metrics):
        cards = _of_part(study, best, found) if best is not None else _of_program(study, found)
    return {
        "lead": _lead(study, own) or (lead if whole is None else answer.wall_time(study, causes=False)[0]),
        "mood": study.verdicts[best.name].word if best is not None and best.name in study.verdicts else "",
        "cards": cards,
        "table": tables.parts_table(study, first_screen=True),
        "lines": list(filter(None, lines)),
        "notes": list(filter(None, notes)),
    }


def _lead(study: Study, name: str) -> str:
    """The verdict without numbers, which the cards have; "" if no answer is right."""
    verdict = study.verdicts.get(name)
    if verdict is None or not verdict.right or verdict.word in ("void", "impossible"):
        return ""
    told = verdict.text(language(), translated, CARDS_TELL)
    said = answer.called(study, name) + say("colon") + say("comma").join([say("is_correct"), told])
    times = [number(study.analysis.impl(one), "time") for one in (name, study.analysis.reference)]
    if not all(map(math.isfinite, times)):
        return said
    time, before = (units.text(one, "s") for one in times)
    known = study.manifest.reference
    whose = say("p_reference") if known is not None and known.backend == "torch" else say("p_the_reference")
    lead = say("p_lead", verdict=said, time=time, before=before, reference=whose)
    return answer.by_both_clocks(say("p_paired", lead=lead) if name in method.unpaired(study) else lead, verdict)


# ---- the cards of a sample


def _of_part(study: Study, part: Part, found: Sequence[Finding]) -> list[Card]:
    row, verdict = part.row or {}, study.verdicts.get(part.name)
    return [
        _right_card(study, part.impl, verdict),
        _faster_card(verdict, row),
        _time_card(row),
        _cpu_card(study, row) if study.analysis.method == ON_A_CPU else _bound_card(row, say("p_bound")),
        _trust_card(study, verdict),
        next_card(study, part.name, found),
    ]


def _right_card(study: Study, impl: Impl | None, verdict: Verdict | None) -> Card:
    question = say("p_right")
    if impl is None or verdict is None:
        return Card(question, say("p_not_compared"))
    if verdict.word == "void":
        return Card(question, say("p_right_void"), judged(verdict), kind="bad")
    if not verdict.right:
        return Card(question, say("p_right_no", kind=translated(verdict.kind)), translated(verdict.why), kind="bad")
    passed = str(sum(check.passed for check in impl.checks))
    told, one = {"passed": passed, "count": str(len(impl.checks))}, impl.least
    if one is not None and one.precision:
        task = str((study.manifest.probe.get("precision") or {}).get("type", one.precision))
        note = say("p_right_within", **told, type=one.precision, error=one.error, task=task)
    else:
        note = say("p_right_note", **told)
    limits = say("semicolon").join(map(translated, impl.fragile))
    return Card(question, say("yes"), say("p_right_fragile", note=note, what=limits) if limits else note, kind="good")


def _faster_card(verdict: Verdict | None, row: Mapping[Any, Any]) -> Card:
    question = say("p_faster")
    if verdict is None or not verdict.right:
        return Card(question, say("p_not_compared"))
    if verdict.word in ("void", "impossible"):
        why = judged(verdict) if verdict.word == "impossible" else ""
        return Card(question, say("p_faster_none"), why, kind="bad")
    held = [one for one in verdict.conditions if one.code not in ("fragile", *answer.CLOCKS)]  # said elsewhere
    conditions = say("comma").join(judged(one) for one in held)
    ends = tables.speedup(row).partition(" ")[2].strip("[]")
    value = verdict.headline(language())
    count = units.count(number(row, "n"))
    sure = say("p_sure", low_high=ends, count=count) if ends else say("p_sure_narrow", count=count)
    mood = {"faster": "good", "slower": "bad"}.get(verdict.word, "")
    return Card(question, value, say("p_both", one=sure, other=conditions) if conditions else sure, kind=mood)


def _time_card(row: Mapping[Any, Any]) -> Card:
    """Time, and its distance to the lower bound."""
    bound, far = ("lower_bound_own", "p_far_own") if answer.by_own(row) else ("lower_bound", "p_far_note")
    ratio, note = number(row, "lower_bound_ratio"), say("p_no_lower_bound_note")
    time = units.text(number(row, "time"), "s")
    if math.isfinite(ratio):
        time, least = apart(number(row, "time"), number(row, f"{bound}_time"))
        by = str(row[f"{bound}_bound_by"])
        by = say("p_empty_kernel") if by == "launch" else named(by)
        note = say(far, ratio=units.digits(ratio), lower_bound=least, by=by)
    return Card(say("p_time"), time, note, 1 / ratio if ratio > 0 else math.nan)


def _bound_card(row: Mapping[Any, Any], question: str) -> Card:
    """Bottleneck, with a bar for the share of its ceiling; no bar for latency."""
    share, nearest = number(row, "roof_share"), str(row.get("roof", ""))
    answer = bound_why(row) or say("p_unknown")
    if not math.isfinite(share):
        return Card(question, answer)
    shown = units.percent(share)
    if nearest != str(row.get("bound_by", "")):
        return Card(question, answer, say("p_of_nearest", share=shown, roof=named(nearest)))
    return Card(question, answer, say("p_of_roof", share=shown), share)


def _cpu_card(study: Study, row: Mapping[Any, Any]) -> Card:
    """Bottleneck of a call on a CPU: a near ceiling, idle threads, or neither."""
    shares = ceiling_shares(row, study.roofline)
    if not shares or max(shares.values()) >= PLACED:
        return _bound_card(row, say("p_bound"))
    told = say(
        "p_reached", shares=say("listed").join(f"{named(name)} {units.percent(v)}" for name, v in shares.items())
    )
    threads, of = threads_busy(row), number(study.manifest.device, "threads")
    if math.isnan(threads):
        return Card(say("p_bound"), say("p_bound_cpu"), told)
    busy = say("p_threads_busy", busy=f"{threads:.1f}", of=units.count(of))
    held = held_up(threads, of, study.manifest.timing.slower)
    why = say("p_waits_cpu") if held == BUSY else busy if held else say("p_bound_cpu")
    return Card(say("p_bound"), why, say("p_both", one=busy, other=told))


def _trust_card(study: Study, verdict: Verdict | None = None, found: Sequence[Finding] = ()) -> Card:
    """Number of caveats that matter, and the first; red if the verdict is unclear.

    found: of a program, whose results nothing checked.
    """
    matter = caveats.that_matter(study)
    blind, every = unlooked(found)
    times = "" if verdict is not None else say("p_trust_times")
    times = say("p_trust_blind", count=str(blind), every=str(every)) if times and blind else times
    rest = len(caveats.all_caveats(study)) - len(matter)
    more = [_counted("p_trust_rest", rest)] if rest > 0 else []
    return trust_card(matter, more, clear=verdict is None or verdict.word in PACED, none=times)


def trust_card(matter: Sequence[caveats.Said], more: Sequence[str] = (), *, clear: bool = True, none: str = "") -> Card:
    """Number of caveats that matter, and the first; green without one, if more than timed."""
    note = say("semicolon").join([*(one.line().rstrip(".") for one in caveats.weightiest(matter)[:1]), *more])
    trust = _counted("p_trust_some", len(matter)) if matter else none or say("p_trust_none")
    kind = "caveat trust" if matter and not clear else "trust" if matter or none else "good trust"
    return Card(say("p_trust"), trust, note, kind=kind, link="#caveats")


def _counted(key: str, count: int) -> str:
    return say(f"{key}_one" if count == 1 else key, count=str(count))


def next_card(
    study: Study, impl: str | None, found: Sequence[Finding], *, link: str = "#findings", settled: bool = False
) -> Card:
    """Next step for an implementation, or for a program (None); settled: see advice."""
    question = say("p_next")
    if impl:
        part = next(one for one in study.parts if one.name == impl)
        then, first = advice(study, part, [one for one in found if one.impl == impl], settled=settled)
        if first is None:
            return Card(question, then, kind="wide")
        title, step, _ = worded(first, study)
    else:
        first = next((one for one in found if one.severity != COLLECT), None)
        near = number(study.hottest.iloc[0].to_dict(), "roof_share") >= NEAR
        if first is None or (near and first.severity == HINT):
            return Card(question, say("p_near") if near else no_reason(study, found), kind="wide")
        title, step, _ = worded(first, study)
        then = unslowed(study, first, step)
    worth = say("p_lead_hint") if first.severity == HINT else gain(first, measured=then == step)
    if first.kernel:
        worth = say("bound_why", bound=worth, why=short_name(first.kernel, 48))
    note = say("p_moves", title=title, gain=worth) if first.moves else worth + say("colon") + title
    hot = study.hottest.iloc[0].to_dict() if len(study.hottest) else {}
    silent = all(one.severity == COLLECT or one.kernel != hot.get("kernel") for one in found)
    if not impl and not first.kernel and silent and number(hot, "wall_share") >= SECOND:
        share = units.percent(number(hot, "wall_share"))
        note += say("p_second", kernel=short_name(str(hot["kernel"]), 48), share=share)
    return Card(question, then, note, kind="wide", link=link)


# ---- the cards of a program


def _of_program(study: Study, found: Sequence[Finding]) -> list[Card]:
    """Cards of a program: step, idle time, distance, hottest kernel, caveats, next step."""
    kernels = study.hottest.to_dict("records")
    if not kernels:
        return [Card(say("p_which"), say("p_no_kernel"))]
    hot = kernels[0]
    return [
        Card(say("p_right"), say("not_checked"), method.unchecked(study)),
        *([] if study.first_step is None else _wall_cards(study, study.first_step[1])),
        _hottest_card(study, kernels),
        *([_bound_card(hot, say("p_bound_kernel"))] if str(hot.get("bound_by", "unknown")) != "unknown" else []),
        _trust_card(study, found=found),
        next_card(study, None, found),
    ]


def _hottest_card(study: Study, kernels: Sequence[Mapping[Any, Any]]) -> Card:
    share, name = number(kernels[0], "share"), short_name(str(kernels[0]["kernel"]), 60)
    question = say("op_which" if study.by_operator else "p_which")
    if study.stepwise:
        total = float(study.step["time"][study.step["kind"] == "kernel"].sum())
        shares = {"share": units.percent(share), "wall": units.percent(number(kernels[0], "wall_share"))}
        shares["time"] = units.text(total, "s")
        note = say("p_of_program", **shares) if study.filtered else answer.per(study, "p_of_kernel", **shares)
    else:
        whole = "op_of_all" if study.of_operators else "p_of_all"
        note = say(whole, share=units.percent(share), time=units.text(number(kernels[0], "time") / share, "s"))
    return Card(question, name, note, share, "small")


def _wall_cards(study: Study, one: Budget) -> Iterator[Card]:
    """Step time and its distance to the least known time, of the first device."""
    known = {"steps": str(one.steady.steps), "range": answer.spread(one), "work": answer.launched(one)}
    yield Card(answer.per(study, "p_one"), units.text(one.step, "s"), answer.per(study, "p_note", **known))
    yield _far_card(study, one)


def _far_card(study: Study, one: Budget) -> Card:
    """Distance to a step without idle time and with counted kernels at their ceilings."""
    counted = study.hottest.reindex(columns=["step_time", "roof_share"]).astype(float).dropna()
    if sum(other.window > 0 for other in study.budgets.values()) > 1:
        counted = counted[:0]
    spare = float((counted["step_time"] * (1 - counted["roof_share"].clip(0, 1))).sum())
    least = one.busy - min(spare, one.computing / one.parts)
    if not least > 0:
        return Card(say("p_allows"), say("p_unknown"))
    times = {"step": units.text(one.step, "s"), "busy": units.text(one.busy, "s"), "least": units.text(least, "s")}
    total = float(study.step["time"][study.step["kind"] == "kernel"].sum())
    share = float(counted["step_time"].sum()) / total if total > 0 else 0.0
    note = say("p_allows_counted" if share else "p_allows_busy", share=units.percent(share), **times)
    own = one.step - max(one.least, one.busy)
    if answer.slowed(study) and own >= answer.LEAST_SLOWED * one.step:
        note += say("p_allows_traced", own=units.text(own, "s"))
    far = say("p_far_least" if share else "p_far_busy", ratio=units.digits(one.step / least))
    return Card(say("p_allows" if share else "p_works"), far, note, least / one.step)
