"""Drawn parts of pages: waterfalls, steps, changes, findings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from analyzers.rules.rule import COLLECT, TIME, Finding
from analyzers.rules.subjects import WHOLE
from analyzers.waterfall import WORDS
from profkit.report import sections, units
from profkit.report.explain import MINOR, gain, headline, in_order, proof, runnable, unexplained, worded
from profkit.report.layout import cut
from profkit.report.messages import named, of_pair, say
from profkit.report.names import short_name
from profkit.report.page.data import Shown, page_name, stack
from profkit.report.waterfall import Block, blocks, lower_bound_line, wall_blocks

if TYPE_CHECKING:
    from analyzers.timeline.budget import Budget
    from profkit.study.study import Study

TOP = 3
"""Findings of the winner that are told in full; the others are behind a fold."""
MOST_FINDINGS = 20


# ---- where the time goes


@dataclass(frozen=True)
class Bar:
    """One block: begin and length of its bar in percent of the whole time."""

    paint: str
    label: str
    why: str
    left: str
    width: str
    seconds: str
    share: str
    kernel: int
    finding: str

    @classmethod
    def of(cls, one: Block, whole: float, kernel: int = -1, finding: str = "") -> Bar:
        """Bar of a block; `whole` [s]: the longest bar, `kernel`: its row in the table or -1."""
        return cls(
            one.paint,
            one.label(),
            one.why(),
            f"{max(0.0, one.top - one.seconds) / whole:.3%}",
            f"{one.seconds / whole:.3%}",
            units.text(one.seconds, "s"),
            units.percent(one.share(whole)),
            kernel if one.kernel else -1,
            finding,
        )


@dataclass(frozen=True)
class Fall:
    """Waterfall of one part; `stack`: (kind, width, words)."""

    part: Shown
    time: str
    line: str
    bars: list[Bar]
    stack: list[tuple[str, str, str]]
    best: bool

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind, *_ in self.stack)


def falls_of(
    parts: Sequence[Shown],
    kernels: Sequence[Mapping[str, str]],
    found: Sequence[Finding] = (),
    ids: Mapping[int, str] = MappingProxyType({}),
    *,
    open_: int = 0,
) -> list[Fall]:
    """Waterfalls of parts; `kernels`: the script's, `ids`: of findings, `open_`: the one shown."""
    longest = max((part.study.waterfalls[part.impl].time for part in parts), default=math.nan)
    places = {(row["impl"], row["kernel"]): at for at, row in reversed(list(enumerate(kernels)))}
    falls = []
    for at, part in enumerate(parts):
        mine, time = blocks(part.study, part.impl, found), part.study.waterfalls[part.impl].time
        bars = [
            Bar.of(one, time, places.get((part.label, page_name(one.kernel)), -1), ids.get(id(one.finding), ""))
            for one in mine
        ]
        stacked = [
            (kind, f"{seconds / longest:.3%}", say("p_stack", kind=of_pair(WORDS[kind]), time=units.text(seconds, "s")))
            for kind, seconds in stack(mine)
        ]
        line = lower_bound_line(part.study, part.impl)
        falls.append(Fall(part, units.text(time, "s"), line, bars, stacked, at == open_))
    return falls


@dataclass(frozen=True)
class Wall:
    """Wall time of one step on a process and device; `line` says it in a sentence."""

    head: str
    line: str
    time: str
    bars: list[Bar]


def wall_of(
    budget: Budget,
    head: str,
    line: str,
    found: Sequence[Finding] = (),
    whole: str = "",
    ids: Mapping[int, str] = MappingProxyType({}),
    kernels: Sequence[Mapping[str, str]] = (),
) -> Wall:
    """`whole`: what findings about this process and device are said of; `kernels`: the script's."""
    places = {row["kernel"]: at for at, row in reversed(list(enumerate(kernels)))}
    bars = [
        Bar.of(one, budget.step, places.get(page_name(one.kernel), -1), ids.get(id(one.finding), ""))
        for one in wall_blocks(budget, whole, found)
    ]
    return Wall(head, line, units.text(budget.step, "s"), bars)


def walls_of(
    study: Study, found: Sequence[Finding], ids: Mapping[int, str], kernels: Sequence[Mapping[str, str]]
) -> list[Wall]:
    """The steps of a program, one a process and device."""
    lines = iter(sections.wall_time(study))
    head = sections.per(study, "p_one")
    return [
        wall_of(one, head, next(lines), found, name or WHOLE, ids, kernels)
        for name, one in study.budgets.items()
        if one.window > 0
    ]


@dataclass(frozen=True)
class Share:
    """A kind of time on the bar of the first screen."""

    paint: str
    label: str
    time: str
    share: str


def shares_of(mine: Sequence[Block], whole: float) -> list[Share]:
    """Where the time [s] goes by kind, in the order of the blocks."""
    sums: dict[tuple[str, str], float] = {}
    for one in mine:
        label = one.why() or one.label() if one.of_step else of_pair(WORDS[one.kind])
        sums[one.paint, label] = sums.get((one.paint, label), 0.0) + one.seconds
    return [
        Share(paint, label, units.text(seconds, "s"), f"{seconds / whole:.1%}")
        for (paint, label), seconds in sums.items()
    ]


@dataclass(frozen=True)
class Change:
    """Row of the difference between first and last step: times as text, gain and bar.

    `gained` is negative for less time; `width`: percent of the largest change; `mood`: up or down.
    """

    label: str
    cells: list[str]
    gained: str
    width: str
    mood: str

    @classmethod
    def of(cls, label: str, seconds: Sequence[float], top: float) -> Change:
        """`top` [s]: what the longest bar stands for."""
        gained = seconds[-1] - seconds[0]
        sign = "+" if gained > 0 else "-" if gained < 0 else ""
        cells = [units.text(value, "s") if value else units.MISSING for value in seconds]
        width = f"{min(1.0, abs(gained) / top):.1%}" if top > 0 else "0%"
        mood = "up" if gained > 0 else "down" if gained < 0 else ""
        return cls(label, cells, f"{sign}{units.text(abs(gained), 's')}", width, mood)


# ---- findings


@dataclass(frozen=True)
class Told:
    """Texts of one finding; `own`: what it could win beyond those before it, where less."""

    id: str
    severity: str
    gain: str
    title: str
    step: str
    kernel: str
    full: str
    own: str
    evidence: str
    expect: str


@dataclass(frozen=True)
class Of:
    """Findings of one part: `kept`, as `findings` in words, smaller ones counted."""

    name: str
    headline: str
    kept: list[Finding]
    findings: list[Told]
    smaller: int
    unchecked: str
    collect: str
    best: bool
    silent: str

    @property
    def top(self) -> list[Told]:
        return self.findings[:TOP] if self.best else []

    @property
    def rest(self) -> list[Told]:
        return self.findings[TOP:] if self.best else self.findings


def findings_of(study: Study, found: Sequence[Finding]) -> Iterator[Of]:
    """The findings of the parts as these are ranked; of a program all in one."""
    if study.best is None:
        yield _of(study, "", next(iter(sections.wall_time(study)), ""), found, 0)
        return
    for at, name in enumerate(in_order(study)):
        yield _of(study, name, headline(study, name), [one for one in found if one.impl == name], at)


def _of(study: Study, name: str, head: str, mine: Sequence[Finding], at: int) -> Of:
    every = [one for one in mine if one.severity != COLLECT]
    large = sorted((one for one in every if not one.ratio < MINOR), key=_claims_nothing)[:MOST_FINDINGS]
    missing = [one for one in mine if one.severity == COLLECT]
    return Of(
        name,
        head,
        large,
        [_finding(study, one, f"f{at}-{number}") for number, one in enumerate(large)],
        len(every) - len(large),
        say("listed").join(dict.fromkeys(named(one.rule) for one in missing)),
        runnable(missing[0].next_step, study) if missing else "",
        at == 0,
        unexplained(mine),
    )


def _claims_nothing(one: Finding) -> bool:
    """Whether the findings before it claim all that it could win."""
    return one.severity == TIME and one.win <= MINOR * one.upper_bound


def _finding(study: Study, one: Finding, name: str) -> Told:
    title, then, expect = worded(one)
    ranged = study.best is None and len(study.parts) > 1 and one.impl not in ("", WHOLE)
    where = ", ".join([*([one.impl] if ranged else []), *([short_name(one.kernel)] if one.kernel else [])])
    own = ""
    # Of a program the slice itself is claimed: its first finding says more than the others leave of it.
    if one.severity == TIME and one.win < 0.98 * one.upper_bound and math.isnan(one.recorded):
        own = say("p_own", time=units.text(one.win, "s")) if one.win > 0 else say("p_own_none")
    evidence = say("semicolon").join(map(proof, one.evidence))
    full = cut(one.kernel, 300)
    return Told(name, one.severity, gain(one), title, runnable(then, study), where, full, own, evidence, expect)
