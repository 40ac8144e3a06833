"""A page of several runs: the ladder, how the waterfalls differ, the counters that moved, the gate's verdict; of programs
their steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzers.compare import Ladder, Rung
from analyzers.verdicts.speedup import shown
from analyzers.waterfall import EXCESS, WORDS, Waterfall
from collectors.doubt import Doubt
from profkit._version import __version__
from profkit.report import ladder as view
from profkit.report import programs, sections, units
from profkit.report.ladder import Chosen
from profkit.report.layout import Table
from profkit.report.names import short_name
from profkit.report.waterfall import wall_blocks
from profkit.report.words import named, say
from profkit.report.writers.frame import Text, both, doubted, grid, render, told
from profkit.report.writers.html import Wall, bar, falls_of, trust
from profkit.report.writers.page_data import Shown, data_of
from roofline.figure.style import places

if TYPE_CHECKING:
    from analyzers.timeline.compare import Programs
    from analyzers.timeline.compare import Rung as ProgramRung
    from profkit.report.programs import Compared
    from profkit.study.study import Study

MOST_ROWS = 14
"""Rows of the table of what a waterfall gained or lost."""


@dataclass(frozen=True)
class Gate:
    """What was asked of the last steps and came of it: `limit` NaN where nothing was."""

    limit: float
    slower: Sequence[Rung]
    apart: Sequence[str]

    @property
    def mood(self) -> str:
        return "" if math.isnan(self.limit) else "wrong" if self.slower or self.apart else "faster"

    def text(self, lang: str) -> str:
        if math.isnan(self.limit):
            return say("c_no_gate", lang)
        limit = units.percent(self.limit)
        if self.apart:
            return say("c_apart", lang, facts=say("listed", lang).join(named(one, lang) for one in self.apart))
        if self.slower:
            said = ", ".join(f"{rung.label} +{units.percent(1 / rung.total - 1)}" for rung in self.slower)
            return say("c_regressed", lang, limit=limit, steps=said)
        return say("c_passed", lang, limit=limit)


def page_of(done: Compared, limit: float | None = None, lang: str = "en") -> str:
    """The page of what was compared; `limit`: of the gate (fraction of the first step's time), None for none."""
    if isinstance(done.found, Ladder):
        return page(done.chosen, done.found, limit, lang)
    return page_of_programs(done.studies, done.found, limit, lang)


def page_of_programs(studies: Sequence[Study], found: Programs, limit: float | None = None, lang: str = "en") -> str:
    """Programs by their step: the answer, where a step's time goes, what runs in it, what to doubt."""
    doubts = programs.doubts(studies, found)
    told_ = both(lambda tag: programs.lead(found, tag))
    labels = [rung.label for rung in found.rungs]
    whole = found.rungs[0].time, found.rungs[-1].time
    told_slices = list(zip(programs.slices(found), programs.slices(found, "zh"), strict=True))
    changes = [_change(Text(name, other), seconds, max(whole)) for (name, seconds), (other, _) in told_slices]
    return render(
        "programs.html",
        lang,
        {**data_of(()), "timeline": None},
        title=both(lambda tag: " → ".join(labels)),
        subtitle=_subtitle(studies),
        lead=told("p_both", one=told_, other=trust(doubts)),
        mood={"faster": "faster", "slower": "slower"}.get(found.rungs[-1].since.verdict, ""),
        gate=both(lambda tag: _programs_gate(found, limit, tag)),
        gate_mood=_programs_mood(found, limit),
        sides=grid(lambda tag: programs.sides_table(found, tag)),
        budgets=[_wall(found, rung) for rung in found.rungs],
        difference=(labels, changes),
        work=[
            (rung.label, grid(lambda tag, at=at: programs.pieces_table(found, at, tag)))  # type: ignore[misc]
            for at, rung in enumerate(found.rungs)
            if rung.pieces
        ],
        doubts=doubted(lambda tag: programs.doubts(studies, found, tag)),
        version=__version__,
    )


def _wall(found: Programs, rung: ProgramRung) -> Wall:
    """Where a step of a program goes, as its own page draws it."""
    one = rung.taken.budget
    bars = [bar(block, one.step, -1, {}) for block in wall_blocks(one, "")]
    head = both(lambda tag: programs.per(found, "p_one", tag))
    return Wall(rung.label, head, Text(rung.label, rung.label), units.text(one.step, "s"), bars)


def _programs_gate(found: Programs, limit: float | None, lang: str) -> str:
    """What was asked of the last programs and came of it."""
    if limit is None or found.apart:
        return Gate(math.nan if limit is None else limit, (), found.apart).text(lang)
    slower, unsure, said = found.regressions(limit), found.undecided(limit), units.percent(limit)
    if found.unknown:
        return say("st_gate_unknown", lang, steps=", ".join(found.unknown))
    key = "st_gate_regressed" if slower else "st_gate_undecided" if unsure else "st_gate_passed"
    return say(key, lang, limit=said, steps=", ".join(rung.label for rung in slower or unsure))


def _programs_mood(found: Programs, limit: float | None) -> str:
    if limit is None:
        return ""
    if found.apart or found.unknown or found.regressions(limit):
        return "wrong"
    return "" if found.undecided(limit) else "faster"


def page(chosen: Sequence[Chosen], ladder: Ladder, limit: float | None = None, lang: str = "en") -> str:
    """The whole page; `limit`: of the gate (fraction of the first step's time), None for none."""
    parts = _parts(chosen, ladder)
    last, wanted = ladder.rungs[-1], math.nan if limit is None else limit
    gate = Gate(wanted, ladder.regressions(limit) if limit is not None and not ladder.apart else [], ladder.apart)
    data = data_of(parts, best=last.label)
    known = [part for part in parts if part.impl in part.study.waterfalls]
    doubts = _doubts(chosen, ladder)
    return render(
        "compare.html",
        lang,
        {**data, "timeline": None},
        title=both(lambda tag: " → ".join(rung.label for rung in ladder.rungs)),
        subtitle=_subtitle([one.study for one in chosen]),
        lead=told("p_both", one=_lead(ladder), other=trust(doubts)),
        mood=_mood(last),
        gate=both(gate.text),
        gate_mood=gate.mood,
        ladder=grid(lambda tag: _ladder(chosen, ladder, tag)),
        falls=falls_of(known, data["kernels"], open_=len(known) - 1),
        difference=_difference(parts),
        moved=[
            (rung.label, [both(lambda tag, one=one: view.moved(one, tag)) for one in rung.moved])  # type: ignore[misc]
            for rung in ladder.rungs
            if rung.moved
        ],
        doubts=doubted(lambda tag: doubts),
        kernel_note=told("kernel_note"),
        version=__version__,
    )


def _subtitle(studies: Sequence[Study]) -> Text:
    runs = dict.fromkeys(f"{one.manifest.sample.id}, {one.manifest.created}" for one in studies)
    devices = dict.fromkeys(sections.device(one) for one in studies)
    text = "; ".join([*devices, *runs])
    return Text(text, text)


def _doubts(chosen: Sequence[Chosen], ladder: Ladder) -> list[Doubt | sections.Said]:
    """What weakens the comparison, and each step's own doubts, once."""
    own = dict.fromkeys(said for one in chosen for said in sections.concerning(one.study, one.impl))
    return [*ladder.doubts, *own]


def _parts(chosen: Sequence[Chosen], ladder: Ladder) -> list[Shown]:
    """The steps in their order. Of one run they keep the colours that they have on its page."""
    colours = places(view.order_of(chosen, ladder))
    return [
        Shown(one.study, one.impl, rung.label, colours[rung.label])
        for one, rung in zip(chosen, ladder.rungs, strict=True)
    ]


def _lead(ladder: Ladder) -> Text:
    first, last = ladder.rungs[0], ladder.rungs[-1]
    times = {"before": units.text(first.time, "s"), "after": units.text(last.time, "s")}
    how = {"last": last.label, "first": first.label, "ratio": shown(last.total, "ratio")}
    key = "c_two" if len(ladder.rungs) == 2 else "c_many"
    sure = both(
        lambda tag: say("c_sure", tag, word=say(f"c_{last.verdict or 'undecided'}", tag), interval=view.interval(last))
    )
    return told(key, **times, **how, sure=sure, step=shown(last.step, "ratio"))


def _mood(rung: Rung) -> str:
    return {"faster": "faster", "slower": "slower"}.get(rung.verdict, "")


def _ladder(chosen: Sequence[Chosen], ladder: Ladder, lang: str) -> Table:
    unit, times = units.column([rung.time for rung in ladder.rungs], "s")
    heads = ("step", "measure", "correct", "time", "c_step", "since", "attainable", "x_floor", "bound_by")
    head = [say(key, lang) for key in heads]
    head[3] = f"{head[3]} [{unit}]"
    rows = [
        [
            rung.label,
            ", ".join(rung.changed) or (units.MISSING if not at else say("c_same_file", lang)),
            _correct(chosen[at], lang),
            time,
            view.step_text(rung, lang),
            shown(rung.total, "ratio"),
            units.percent(rung.attainable_fraction),
            units.digits(rung.floor_ratio),
            named(rung.bound_by, lang) or units.MISSING,
        ]
        for at, (rung, time) in enumerate(zip(ladder.rungs, times, strict=True))
    ]
    return Table(head, rows)


def _correct(one: Chosen, lang: str) -> str:
    return sections.correctness(next((impl for impl in one.study.manifest.impls if impl.name == one.impl), None), lang)


@dataclass(frozen=True)
class Change:
    """One row of the difference between the waterfalls of the first and the last step: times as text, what it gained
    [s, negative for less], its bar in percent of the largest change, and whether it went up or down.
    """

    label: Text
    cells: list[str]
    gained: str
    width: str
    mood: str


def _difference(parts: Sequence[Shown]) -> tuple[list[str], list[Change]]:
    """(labels of the steps, changes): kinds of time, and kernels that one of the steps alone has or both, the largest
    change first. ([], []) where a step has no waterfall.
    """
    falls = [part.study.waterfalls.get(part.impl) for part in parts]
    known = [fall for fall in falls if fall is not None]
    if len(known) < len(falls):
        return [], []
    tables = [_sums(fall) for fall in known]
    sizes = {name: abs(tables[-1].get(name, 0.0) - tables[0].get(name, 0.0)) for table in tables for name in table}
    names = sorted(sizes, key=lambda name: -sizes[name])
    rows = [[table.get(name, 0.0) for table in tables] for name in names]
    top = max(sizes.values(), default=0.0)
    found = [_change(_words(name), row, top) for name, row in zip(names[:MOST_ROWS], rows, strict=False)]
    rest = [sum(row[at] for row in rows[MOST_ROWS:]) for at in range(len(tables))]
    found += [_change(told("c_rest", count=str(len(names) - MOST_ROWS)), rest, top)] if any(rest) else []
    return [part.label for part in parts], found


def _sums(fall: Waterfall) -> dict[tuple[str, str], float]:
    """(kind, short name of the kernel) -> seconds."""
    sums: dict[tuple[str, str], float] = {}
    for one in fall.slices:
        name = (one.kind, short_name(one.kernel, 48) if one.kernel else "")
        sums[name] = sums.get(name, 0.0) + one.seconds
    return sums


def _words(name: tuple[str, str]) -> Text:
    kind, kernel = name
    words = told("fall_over") if kind == EXCESS else Text(*WORDS[kind])
    return both(lambda tag: say("c_of", tag, kernel=kernel, kind=getattr(words, tag))) if kernel else words


def _change(label: Text, seconds: Sequence[float], top: float) -> Change:
    gained = seconds[-1] - seconds[0]
    sign = "+" if gained > 0 else "-" if gained < 0 else ""
    cells = [units.text(value, "s") if value else units.MISSING for value in seconds]
    width = f"{min(1.0, abs(gained) / top):.1%}" if top > 0 else "0%"
    mood = "up" if gained > 0 else "down" if gained < 0 else ""
    return Change(label, cells, f"{sign}{units.text(abs(gained), 's')}", width, mood)
