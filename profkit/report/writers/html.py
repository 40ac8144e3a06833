"""report.html: one self-contained page, offline, in both languages; its script draws from the embedded data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from analyzers.program import IDLE
from analyzers.records import number
from analyzers.rules.rule import COLLECT, HOST, TIME, Finding
from analyzers.subjects import WHOLE
from analyzers.waterfall import WORDS
from profkit.report import sections, units
from profkit.report.chinese import said_in
from profkit.report.explain import MINOR, gain, headline, in_order, proof, runnable, unexplained, worded
from profkit.report.layout import Column, Table, column, cut
from profkit.report.names import short_name
from profkit.report.waterfall import Block, blocks, floor_line, wall_blocks
from profkit.report.words import LANGUAGES, bound, named, of_roof, say
from profkit.report.writers.frame import Grid, Text, both, doubted, grid, render, said, told
from profkit.report.writers.page_data import (
    Shown,
    best_roofs,
    data_of,
    page_name,
    samples_of,
    shown_of,
    stack,
    timeline_of,
)

if TYPE_CHECKING:
    from analyzers.program import Budget
    from analyzers.verdict import Verdict
    from profkit.rundir.manifest import Impl
    from profkit.study.study import Part, Study

TOP = 3
"""Findings of the winner that are told in full; the others are behind a fold."""
MOST_FINDINGS = 20
MOST_PARTS = 40
"""Parts whose findings the page lists: a program may have hundreds of ranges."""
MOST_FALLS = 12
WHOLLY = 0.99
"""Share of the kernels' time from which a program counts as counted."""
SAME = 0.01
"""Relative difference below which a share of a roof and a distance to the floor are one number."""
NOTHING = Text("", "")


def page(study: Study, lang: str = "en") -> str:
    """The whole page; `lang` (en or zh) is what it opens in, the reader may change it."""
    found = study.findings()
    parts = shown_of(study)
    best = study.best.name if study.best is not None else ""
    answer = _Answer.of(study, found)
    of = list(_told(study, found))
    ids = {id(one): told_.id for group in of for one, told_ in zip(group.kept, group.findings, strict=True)}
    data = {**data_of(parts, best=best), "timeline": timeline_of(study), "timings": samples_of(parts)}
    has_roofline = sections.placed(study)
    return render(
        "page.html",
        lang,
        data,
        has_timeline=data["timeline"] is not None,
        timed=bool(data["timings"]),
        # Without FLOP there is nothing to plot: the page has bars of bandwidth, and says so.
        plotted=not data["kernels"] or any((one["flops"] or 0) > 0 for one in data["kernels"]),
        title=both(lambda tag: say("p_on", tag, sample=study.manifest.sample.id, device=sections.device(study))),
        subtitle=both(lambda tag: _subtitle(study, tag)),
        answer=answer,
        parts=parts,
        falls=falls_of(_in_sight(study, parts), data["kernels"], found, ids)
        if has_roofline or not study.stepwise
        else [],
        told=of,
        budgets=_budgets(study, found, ids, data["kernels"]),
        holes=_holes(study),
        timeline=list(_gaps(study)) if not study.manifest.impls else [],
        kernel_note=both(lambda tag: sections.kernel_note(study, tag)),
        timing=both(lambda tag: sections.timing_line(study, tag)),
        impls=bool(study.manifest.impls),
        now=both(lambda tag: _now(study, tag)),
        has_roofline=has_roofline,
        facts=(facts := [(key, value) for key, value in _facts(study, roofs=has_roofline) if value]),
        facts_fold=both(lambda tag: _keys(facts, tag)),
        matter=doubted(lambda tag: sections.that_matter(study, tag)),
        other=doubted(lambda tag: _beside(study, tag)),
        version=study.manifest.profkit,
    )


def _keys(facts: Iterable[tuple[Text, Text]], lang: str) -> str:
    """What is told of the run, each once."""
    return say("comma", lang).join(dict.fromkeys(key.pair[LANGUAGES.index(lang)] for key, _ in facts))


def _now(study: Study, lang: str) -> str:
    if study.manifest.impls:
        return say("p_now", lang)
    return say("p_now_counted" if study.stepwise else "p_now_gpu", lang)


def _beside(study: Study, lang: str) -> list[sections.Said]:
    """The doubts that the answer does not rest on."""
    matter = sections.that_matter(study, lang)
    return [one for one in sections.doubts(study, lang) if one not in matter]


def _subtitle(study: Study, lang: str) -> str:
    source = "p_imported" if study.manifest.sample.kind == "import" else "p_measured"
    made = say(source, lang, created=study.manifest.created)
    return say("comma", lang).join(part for part in (study.manifest.sample.path, made) if part)


def _gaps(study: Study) -> Iterator[Text]:
    """Of each device what its timeline does not show at a glance: the longest gap, and how much of the work is copying."""
    for found in study.timelines.values():
        for one in found.devices:
            if one.gaps.count:
                longest = {"time": units.text(one.gaps.largest, "s"), "after": short_name(one.gaps.after)}
                longest["before"] = short_name(one.gaps.before)
                yield told("p_longest_gap", device=one.device, count=str(one.gaps.count), **longest)
        copied = sum(one.time for one in found.copies)
        if copied and not study.stepwise:
            yield told("p_copies", time=units.text(copied, "s"), share=units.percent(copied / found.total))


# ---- the answer


@dataclass(frozen=True)
class Card:
    """A question, its answer, what it rests on; `share`: how full a bar under it is, NaN for none."""

    question: Text
    answer: Text
    note: Text = NOTHING
    share: float = math.nan
    kind: str = ""
    link: str = ""

    @property
    def bar(self) -> str:
        return f"{min(1.0, self.share):.1%}" if math.isfinite(self.share) else ""


@dataclass(frozen=True)
class _Answer:
    """What stands first: a sentence about the best, a card a question, every part in a row, what else to know, and below
    the table what its numbers do not say by themselves."""

    lead: Text
    mood: str
    cards: list[Card]
    parts: Grid
    lines: list[Text] = field(default_factory=list)
    notes: list[Text] = field(default_factory=list)

    @classmethod
    def of(cls, study: Study, found: Sequence[Finding]) -> _Answer:
        first = [Text(*pair) for pair in zip(*(sections.first_lines(study, tag) for tag in LANGUAGES), strict=True)]
        lead = _place(study, first)
        lines = [line for at, line in enumerate(first) if at != lead and not _in_table(study, line)]
        missing, fix = both(lambda tag: sections.counters_line(study, tag)), study.manifest.counters.fix
        if missing:
            lines.append(told("p_note_fix", note=missing, fix=said(fix)) if fix else missing)
        uncounted = both(lambda tag: sections.uncounted_line(study, tag))
        lines += [uncounted] if uncounted else []
        beside = [
            both(lambda tag: sections.paired_line(study, tag)),
            both(lambda tag: sections.below_least(study, tag)),
        ]
        best, mood = study.best, ""
        if best is not None and best.name in study.verdicts:
            mood = study.verdicts[best.name].word
        cards = _cards(study, found)
        sure = trust(sections.that_matter(study))
        opening = told("p_both", one=first[lead], other=sure) if cards else first[lead]
        return cls(opening, mood, cards, _table(study), lines, [line for line in beside if line])


def _place(study: Study, lines: Sequence[Text]) -> int:
    """Which of the first lines is about the best; the first of all where none is."""
    best = study.best
    return next((at for at, line in enumerate(lines) if best is not None and line.en.startswith(f"{best.name}: ")), 0)


def _in_table(study: Study, line: Text) -> bool:
    """Whether the table says it, too: a first line about a candidate that was timed and is right."""
    one = study.verdicts.get(line.en.partition(": ")[0])
    return one is not None and one.word in ("faster", "slower", "same", "undecided")


def _cards(study: Study, found: Sequence[Finding]) -> list[Card]:
    """Right, faster, how long, bound by what, to be trusted, what next: of the best implementation, or of a program."""
    if not len(study.metrics):
        return []
    if study.best is not None:
        return _of_part(study, study.best, found)
    return _of_program(study, found)


def _of_part(study: Study, part: Part, found: Sequence[Finding]) -> list[Card]:
    row = part.row or {}
    first = next((one for one in found if one.impl == part.name and one.severity == TIME), None)
    verdict = study.verdicts.get(part.name)
    return [
        _right_card(part.impl, verdict),
        _faster_card(verdict, row),
        _time_card(row),
        _bound_card(row),
        _trust_card(study, found),
        _next_card(study, first, row, found),
    ]


def _right_card(impl: Impl | None, verdict: Verdict | None) -> Card:
    question = told("p_right")
    if impl is None or verdict is None:
        return Card(question, told("p_not_compared"))
    if verdict.word == "void":
        return Card(question, told("p_right_void"), Text(verdict.text("en"), verdict.text("zh")), kind="bad")
    if not verdict.right:
        return Card(question, told("p_right_no", kind=said(verdict.kind)), said(verdict.why), kind="bad")
    passed = str(sum(check.passed for check in impl.checks))
    tolerances = "; ".join(dict.fromkeys(check.said for check in impl.checks if check.said))
    within = re.sub(r"(?<=\de)([+-])0(?=\d)", r"\1", tolerances)
    key = "p_right_within" if within else "p_right_note"
    note = told(key, passed=passed, count=str(len(impl.checks)), tolerance=within)
    fragile = both(lambda tag: say("semicolon", tag).join(said_in(tag, one) for one in impl.fragile))
    return Card(
        question, told("yes"), told("p_right_fragile", note=note, what=fragile) if fragile else note, kind="good"
    )


def _faster_card(verdict: Verdict | None, row: Mapping[Any, Any]) -> Card:
    question = told("p_faster")
    if verdict is None or not verdict.right:
        return Card(question, told("p_not_compared"))
    held = [one for one in verdict.conditions if one.code != "fragile"]  # which is said of being right
    conditions = both(lambda tag: say("comma", tag).join(one.text(tag) for one in held))
    if verdict.word in ("void", "impossible"):
        why = Text(verdict.text("en"), verdict.text("zh")) if verdict.word == "impossible" else NOTHING
        return Card(question, told("p_faster_none"), why, kind="bad")
    ends = sections.speedup(row).partition(" ")[2].strip("[]")
    key = "p_slower_value" if verdict.word == "slower" else "p_faster_value"
    shown = 1 / verdict.speedup if verdict.word == "slower" and verdict.speedup > 0 else verdict.speedup
    value = told(f"p_{verdict.word}") if verdict.word in ("same", "undecided") else told(key, value=f"{shown:.3g}")
    count = units.count(number(row, "n"))
    sure = told("p_sure", low_high=ends, count=count) if ends else told("p_sure_narrow", count=count)
    mood = {"faster": "good", "slower": "bad"}.get(verdict.word, "")
    return Card(question, value, told("p_both", one=sure, other=conditions) if conditions else sure, kind=mood)


def _time_card(row: Mapping[Any, Any]) -> Card:
    """How long it takes, and how far that is from the floor."""
    ratio, question = number(row, "floor_ratio"), told("p_time")
    time = units.text(number(row, "time"), "s")
    if not math.isfinite(ratio):
        return Card(question, Text(time, time), told("p_no_floor_note"))
    floor = units.text(number(row, "floor_time"), "s")
    note = told("p_far_note", ratio=units.digits(ratio), floor=floor)
    return Card(question, Text(time, time), note, 1 / ratio if ratio > 0 else math.nan)


def _bound_card(row: Mapping[Any, Any], question: Text | None = None) -> Card:
    roof = both(lambda tag: bound(row, tag) or say("p_unknown", tag))
    share, nearest = number(row, "roof_share"), str(row.get("roof", ""))
    at_roof = nearest == str(row.get("bound_by", ""))
    said_ = both(lambda tag: say("p_of_nearest", tag, share=units.percent(share), roof=named(nearest, tag)))
    # Where the roof that binds sets the floor, too, and no more was done than must be, both are one fact; so are they where
    # a cache kept bytes from being counted.
    times = number(row, "floor_ratio")
    of_floor = at_roof and row.get("floor_bound_by") == nearest and times > 0 and share * times < 1 + SAME
    key = "p_of_roof" if not of_floor else "p_of_floor" if share * times > 1 - SAME else "p_of_counted"
    moved = units.percent(1 / times) if of_floor else ""
    shares = {"share": units.percent(share), "moved": moved, "ratio": units.digits(times)}
    note = told(key, **shares) if at_roof else said_
    # The bar is the share of the roof it is bound by; what waits is bound by none.
    note = note if math.isfinite(share) else NOTHING
    return Card(question or told("p_bound"), roof, note, share if at_roof else math.nan)


def _trust_card(study: Study, found: Sequence[Finding]) -> Card:
    matter, every = sections.that_matter(study), sections.doubts(study)
    notes = [one.what for one in doubted(lambda tag: sections.that_matter(study, tag))[:2]]
    left = len(matter) - len(notes), len(every) - len(matter)
    keys = ("p_trust_more_one" if left[0] == 1 else "p_trust_more", "p_trust_rest")
    notes += [told(key, count=str(count)) for key, count in zip(keys, left, strict=True) if count]
    missing = unrun(study, found)
    notes += [told("p_trust_unrun_one" if missing == 1 else "p_trust_unrun", count=str(missing))] if missing else []
    note = both(lambda tag: say("semicolon", tag).join(getattr(one, tag) for one in notes))
    return Card(told("p_trust"), trust(matter), note, kind="doubt trust" if matter else "good trust", link="#doubts")


def trust(matter: Sequence[object]) -> Text:
    """How many doubts matter."""
    key = "p_trust_none" if not matter else "p_trust_one" if len(matter) == 1 else "p_trust_some"
    return told(key, count=str(len(matter)))


def unrun(study: Study, found: Sequence[Finding]) -> int:
    """Checks of the best implementation, or of a program, whose counters were not collected."""
    best = study.best.name if study.best is not None else None
    return len({one.rule for one in found if one.severity == COLLECT and best in (None, one.impl)})


def _next_card(study: Study, first: Finding | None, row: Mapping[Any, Any], found: Sequence[Finding]) -> Card:
    question = told("p_next")
    if first is None:
        near = number(row, "roof_share") >= 0.8
        best = study.best.name if study.best is not None else None
        mine = [one for one in found if best in (None, one.impl)]
        return Card(question, told("p_near") if near else both(lambda tag: unexplained(mine, tag)), kind="wide")
    answer = both(lambda tag: runnable(worded(first, tag)[1], study))
    where = short_name(first.kernel, 48) if first.kernel else ""
    worth = both(
        lambda tag: (
            (say("bound_why", tag, bound=gain(first, tag), why=where) if where else gain(first, tag))
            + say("colon", tag)
            + worded(first, tag)[0]
        )
    )
    return Card(question, answer, worth, kind="wide", link="#findings")


def _of_program(study: Study, found: Sequence[Finding]) -> list[Card]:
    """How long a step is, what it waits for, how far it is from what the machine allows, the kernel that takes most of the
    GPU's time, and the first finding."""
    kernels = study.hottest.to_dict("records")
    timed = [one for one in found if one.severity in (TIME, HOST)]
    if not kernels:
        return [Card(told("p_which"), told("p_no_kernel"))]
    hot = kernels[0]
    first = next(iter(timed), None)
    whole = next((one for one in study.budgets.values() if one.window > 0), None)
    return [
        *([] if whole is None else _wall_cards(study, whole)),
        _hottest_card(study, kernels),
        *([_bound_card(hot, told("p_bound_kernel"))] if str(hot.get("bound_by", "unknown")) != "unknown" else []),
        Card(told("p_faster"), told("p_no_baseline"), _baseline_note(study, whole)),
        Card(told("p_right"), told("p_not_compared"), told("p_program_note")),
        _trust_card(study, found),
        _next_card(study, first, hot, found),
    ]


def _baseline_note(study: Study, whole: Budget | None) -> Text:
    """What a run after a change is to be held against."""
    if whole is None:
        return told("p_baseline_note")
    step, range_ = units.text(whole.step, "s"), _spread(whole)
    return both(
        lambda tag: (
            sections.per(study, "p_baseline", tag, time=step)
            + (say("p_baseline_spread", tag, range=getattr(range_, tag)) if range_ else "")
        )
    )


def _hottest_card(study: Study, kernels: Sequence[Mapping[Any, Any]]) -> Card:
    hot = kernels[0]
    share, name = number(hot, "share"), short_name(str(hot["kernel"]), 60)
    if study.stepwise:
        shares = {"share": units.percent(share), "wall": units.percent(number(hot, "wall_share"))}
        total = float(study.step["time"][study.step["kind"] == "kernel"].sum())
        shares["time"] = units.text(total, "s")
        note = both(lambda tag: sections.per(study, "p_of_kernel", tag, **shares))
        note = told("p_of_program", **shares) if study.filtered else note
    else:
        total = sum(number(one, "time") for one in kernels)
        note = told("p_of_all", share=units.percent(share), time=units.text(total, "s"))
    alike = [one for one in kernels if short_name(str(one["kernel"]), 60) == name]
    if len(alike) > 1:
        together = {"count": str(len(alike)), "share": units.percent(sum(number(one, "share") for one in alike))}
        note = both(lambda tag: getattr(note, tag) + say("p_same_name", tag, **together))
    return Card(told("p_which"), Text(name, name), note, share, "small")


def _wall_cards(study: Study, one: Budget) -> Iterator[Card]:
    """How long a step is, for how much of it the GPU idles, what takes most, and how far it is from what could be; of the
    first device."""
    step = units.text(one.step, "s")
    question = both(lambda tag: sections.per(study, "p_one", tag))
    yield Card(question, Text(step, step), both(lambda tag: _step_note(study, one, tag)))
    share = one.idle / one.window
    time, count = units.text(one.idle / one.parts, "s"), f"{one.gaps / one.parts:.0f}"
    gaps = both(lambda tag: sections.per(study, "p_idle", tag, time=time, gaps=count))
    yield Card(told("p_idle"), Text(units.percent(share), units.percent(share)), gaps, share)
    kind = max((*IDLE, "copying", "communicating", "computing"), key=lambda name: getattr(one, name))
    why = told("p_idle_why", why=told(f"wall_{kind}")) if kind in IDLE and kind != "unknown" else told("wall_idle")
    most = units.percent(getattr(one, kind) / one.window)
    yield Card(
        told("p_bound"), why if kind in IDLE else told(f"wall_{kind}"), told("p_of_step", share=most), kind="small"
    )
    yield _far_card(study, one)


def _step_note(study: Study, one: Budget, lang: str) -> str:
    """Of how many steps or passages it is the mean, and what is launched in one."""
    known = {"steps": str(one.steady.steps), "range": sections.spread(one, lang)}
    return sections.per(study, "p_note", lang, work=sections.launched(one, lang), **known)


def _far_card(study: Study, one: Budget) -> Card:
    """How many times a step is what it would be if the GPU never idled, and, as far as kernels were counted, if these ran
    at their roofs: a lower bound of the distance."""
    kernels = study.hottest
    counted = kernels[kernels["roof_share"].notna()] if {"roof_share", "step_time"} <= set(kernels) else kernels[:0]
    spent = float(counted["step_time"].sum()) if len(counted) else 0.0
    spare = float((counted["step_time"] * (1 - counted["roof_share"].clip(0, 1))).sum()) if len(counted) else 0.0
    several = sum(1 for other in study.budgets.values() if other.window > 0) > 1
    least = one.busy - (0.0 if several else min(spare, one.computing / one.parts))
    times = {"step": units.text(one.step, "s"), "busy": units.text(one.busy, "s"), "least": units.text(least, "s")}
    total = float(study.step["time"][study.step["kind"] == "kernel"].sum())
    share = spent / total if total > 0 and not several else 0.0
    if not least > 0:
        return Card(told("p_allows"), told("p_unknown"))
    note = told("p_allows_counted", share=units.percent(share), **times) if share else told("p_allows_busy", **times)
    ratio, low = units.digits(one.step / least), units.digits(max(one.least, one.busy) / least)
    answer = told("p_at_least", ratio=ratio) if share < WHOLLY else Text(f"{ratio}x", f"{ratio}x")
    if sections.slowed(study):
        answer = told("p_at_least_recorded", ratio=ratio, least=low) if low != ratio else answer
        note = both(lambda tag: getattr(note, tag) + say("p_allows_traced", tag))
    return Card(told("p_allows"), answer, note, least / one.step)


def _spread(one: Budget) -> Text:
    return both(lambda tag: sections.spread(one, tag))


def _table(study: Study) -> Grid:
    """Implementations as they are ranked; of ranges what every report says."""
    if not study.manifest.impls:
        return grid(lambda tag: sections.parts_table(study, tag))
    return grid(lambda tag: _parts_table(study, study.ranked, tag))


def _parts_table(study: Study, parts: Sequence[Part], lang: str) -> Table:
    rows = [part.row or {} for part in parts]
    words = {name: one.word for name, one in study.verdicts.items() if one.word in ("void", "impossible")}
    right = [words.get(part.name) or sections.correctness(part.impl, lang) for part in parts]
    return Table.of(
        [
            Column("", [part.name for part in parts]),
            Column(say("correct", lang), right),
            Column(say("speedup", lang), [sections.speedup(part.row) for part in parts]),
            column(say("time", lang), rows, "time", "s"),
            column(say("x_floor", lang), rows, "floor_ratio", ""),
            Column(say("js_frac", lang), [of_roof(row, lang) for row in rows]),
            Column(say("bound_by", lang), [bound(row, lang) or units.MISSING for row in rows]),
        ]
    )


# ---- waterfalls


@dataclass(frozen=True)
class Bar:
    """One block on the page: where its bar begins and how long it is, in percent of the time now."""

    block: Block
    label: Text
    why: Text
    left: str
    width: str
    seconds: str
    share: str
    kernel: int
    finding: str


@dataclass(frozen=True)
class Fall:
    """The waterfall of one part: its bars, and as one stack to set beside the others'."""

    part: Shown
    time: str
    line: Text
    bars: list[Bar]
    stack: list[tuple[str, str, Text]]
    best: bool

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind, *_ in self.stack)


def _in_sight(study: Study, parts: Sequence[Shown]) -> list[Shown]:
    """Those that have a waterfall: implementations as they are ranked, of ranges the longest first."""
    known = [part for part in parts if part.impl in study.waterfalls]
    ranked = known if study.manifest.impls else sorted(known, key=lambda part: -study.waterfalls[part.impl].time)
    return ranked[:MOST_FALLS]


def falls_of(
    parts: Sequence[Shown],
    kernels: Sequence[Mapping[str, str]],
    found: Sequence[Finding] = (),
    ids: Mapping[int, str] = MappingProxyType({}),
    *,
    open_: int = 0,
) -> list[Fall]:
    """The waterfalls of parts that have one, in their order; `kernels`: the script's; `ids`: of findings, in the page;
    `open_`: the place of the one that is shown."""
    longest = max((part.study.waterfalls[part.impl].time for part in parts), default=math.nan)
    places = {(row["impl"], row["kernel"]): at for at, row in reversed(list(enumerate(kernels)))}
    return [
        _fall(part, blocks(part.study, part.impl, found), longest, ids, places, best=at == open_)
        for at, part in enumerate(parts)
    ]


def _fall(
    part: Shown,
    mine: Sequence[Block],
    longest: float,
    ids: Mapping[int, str],
    places: Mapping[tuple[str, str], int],
    *,
    best: bool,
) -> Fall:
    """`longest` [s]: the time that a full stack stands for."""
    study, time = part.study, part.study.waterfalls[part.impl].time
    bars = [bar(one, time, places.get((part.label, page_name(one.kernel)), -1), ids) for one in mine]
    stacked = [
        (kind, f"{seconds / longest:.3%}", told("p_stack", kind=Text(*WORDS[kind]), time=units.text(seconds, "s")))
        for kind, seconds in stack(mine)
    ]
    line = both(lambda tag: floor_line(study, part.impl, tag))
    return Fall(part, units.text(time, "s"), line, bars, stacked, best)


def bar(one: Block, whole: float, kernel: int, ids: Mapping[int, str]) -> Bar:
    """`whole` [s]: what the longest bar stands for."""
    return Bar(
        one,
        both(one.label),
        both(one.why),
        f"{max(0.0, one.top - one.seconds) / whole:.3%}",
        f"{one.seconds / whole:.3%}",
        units.text(one.seconds, "s"),
        units.percent(one.share(whole)),
        kernel if one.kernel else -1,
        ids.get(id(one.finding), ""),
    )


@dataclass(frozen=True)
class Wall:
    """Where the wall time of a step of a process and device goes."""

    name: str
    head: Text
    line: Text
    time: str
    bars: list[Bar]


def _holes(study: Study) -> list[Grid]:
    """What the host did in the idle time of each process and device."""
    count = len(sections.holes_tables(study))
    return [grid(lambda tag, at=at: sections.holes_tables(study, tag)[at]) for at in range(count)]  # type: ignore[misc]


def _budgets(
    study: Study, found: Sequence[Finding], ids: Mapping[int, str], kernels: Sequence[Mapping[str, str]]
) -> list[Wall]:
    """`kernels`: the script's, whose rows a block of a kernel points to."""
    places = {row["kernel"]: at for at, row in reversed(list(enumerate(kernels)))}
    walls: list[Wall] = []
    lines = both(lambda tag: "\n".join(sections.wall_time(study, tag)))
    for name, one in study.budgets.items():
        if not one.window > 0:
            continue
        line = Text(*(text.split("\n")[len(walls)] for text in lines.pair))
        mine = wall_blocks(one, name or WHOLE, found)
        bars = [bar(block, one.step, places.get(page_name(block.kernel), -1), ids) for block in mine]
        head = both(lambda tag: sections.per(study, "p_one", tag))
        walls.append(Wall(name, head, line, units.text(one.step, "s"), bars))
    return walls


# ---- findings and facts


@dataclass(frozen=True)
class Told:
    """What the page says of one finding. `own`: what it could win beyond those before it, where that is less."""

    id: str
    severity: str
    gain: Text
    title: Text
    step: Text
    kernel: str
    full: str
    own: Text
    evidence: Text
    expect: Text


@dataclass(frozen=True)
class Of:
    """The findings of one part, the largest first: `kept` as they are, `findings` as told; what is smaller is counted,
    what was not checked is named."""

    name: str
    headline: Text
    kept: list[Finding]
    findings: list[Told]
    smaller: int
    unchecked: Text
    collect: str
    best: bool
    silent: Text
    """What is said where nothing was found."""

    @property
    def top(self) -> list[Told]:
        return self.findings[:TOP] if self.best else []

    @property
    def rest(self) -> list[Told]:
        return self.findings[TOP:] if self.best else self.findings


def _told(study: Study, found: Sequence[Finding]) -> Iterator[Of]:
    """The findings of the parts as these are ranked; of a program all in one."""
    if study.best is None:
        wall = both(lambda tag: next(iter(sections.wall_time(study, tag)), ""))
        yield _of(study, "", wall, found, 0)
        return
    for at, name in enumerate(in_order(study)):
        head = both(lambda tag, name=name: headline(study, name, tag))  # type: ignore[misc]
        yield _of(study, name, head, [one for one in found if one.impl == name], at)


def _of(study: Study, name: str, head: Text, mine: Sequence[Finding], at: int) -> Of:
    every = [one for one in mine if one.severity != COLLECT]
    large = sorted((one for one in every if not one.ratio < MINOR), key=_claims_nothing)[:MOST_FINDINGS]
    missing = [one for one in mine if one.severity == COLLECT]
    return Of(
        name,
        head,
        large,
        [_finding(study, one, f"f{at}-{number_}") for number_, one in enumerate(large)],
        len(every) - len(large),
        both(lambda tag: say("listed", tag).join(dict.fromkeys(named(one.rule, tag) for one in missing))),
        runnable(missing[0].next_step, study) if missing else "",
        at == 0,
        both(lambda tag: unexplained(mine, tag)),
    )


def _claims_nothing(one: Finding) -> bool:
    """Whether the findings before it claim all that it could win: it is told after those that add something."""
    return one.severity == TIME and one.win <= MINOR * one.upper_bound


def _finding(study: Study, one: Finding, name: str) -> Told:
    ranged = study.best is None and len(study.parts) > 1 and one.impl not in ("", WHOLE)
    short = ", ".join([*([one.impl] if ranged else []), *([short_name(one.kernel)] if one.kernel else [])])
    # Of a program the slice itself is claimed: its first finding says more than the others leave of it.
    less = one.severity == TIME and one.win < 0.98 * one.upper_bound and one.recorded != one.recorded
    return Told(
        name,
        one.severity,
        both(lambda tag: gain(one, tag)),
        both(lambda tag: worded(one, tag)[0]),
        both(lambda tag: runnable(worded(one, tag)[1], study)),
        short,
        cut(one.kernel, 300),
        (told("p_own", time=units.text(one.win, "s")) if one.win > 0 else told("p_own_none")) if less else NOTHING,
        both(lambda tag: say("semicolon", tag).join(proof(p, tag) for p in one.evidence)),
        both(lambda tag: worded(one, tag)[2]),
    )


def _facts(study: Study, *, roofs: bool = True) -> Iterator[tuple[Text, Text]]:
    """Device, versions, counters, files, work and roofs."""
    manifest, counters = study.manifest, study.manifest.counters

    def plain(text: str) -> Text:
        return Text(text, text)

    def listed(texts: Iterable[str]) -> Text:
        return both(lambda tag, texts=tuple(texts): say("comma", tag).join(texts))  # type: ignore[misc]

    known = {k: v for k, v in manifest.device.items() if k in ("name", "cc", "sms", "driver")}
    yield told("device"), both(lambda tag: say("comma", tag).join(f"{named(k, tag)} {v}" for k, v in known.items()))
    yield told("p_versions"), listed(f"{k} {v}" for k, v in manifest.versions.items())
    passes = {"passes": str(counters.passes or "?"), "clock": counters.clock_control}
    collected = told("p_passes", version=counters.version, **passes) if counters.version else plain("Nsight Compute")
    missing = both(
        lambda tag: say("colon", tag).join(said_in(tag, text) for text in (counters.state, counters.why) if text)
    )
    yield told("p_counters"), collected if counters.state == "collected" else missing
    yield told("p_seeds"), listed(map(str, manifest.seeds))
    yield told("p_inputs"), listed(manifest.inputs)
    files = manifest.sample.files.values()
    yield told("p_files"), listed(f"{ref.path} sha256 {ref.sha256[:16]}" for ref in files)
    for work in study.analysis.works[:MOST_PARTS]:
        flops = ", ".join(f"{units.text(v, 'FLOP')} {pipe}" for pipe, v in work.flops.items())
        sums = plain(flops) if flops else told("p_no_flop")
        amounts = told("p_compulsory", flops=sums, bytes=units.text(work.bytes, "B"))
        yield told("p_work", source=said(work.source)), amounts
    for source, known_roofs in _roofs(study).items() if roofs else ():
        yield told("p_roof"), told("p_roof_from", roofs=", ".join(known_roofs), source=said(source))
    yield told("p_again"), plain(sections.again(study))


def _roofs(study: Study) -> dict[str, list[str]]:
    """Where roofs come from -> "dram 4.47 TB/s", of those that something of the run is held against."""
    rows = study.kernels.to_dict("records") if len(study.kernels) else []
    pipes = {str(row.get("compute") or "") for row in rows} - {""}
    pipes |= {name for work in study.analysis.works for name in work.flops}
    found: dict[str, list[str]] = {}
    for roof in best_roofs(study.roofline, sorted(pipes)):
        peak = units.text(roof.peak, "B/s" if roof.kind == "bandwidth" else "FLOP/s")
        source = roof.source + (f", {roof.note}" if roof.note else "")
        found.setdefault(source, []).append(f"{roof.name} {peak}")
    return found
