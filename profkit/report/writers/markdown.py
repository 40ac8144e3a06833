"""report.md: ready to paste into a PR readme."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from profkit.report import sections
from profkit.report.explain import NO_RANGE
from profkit.report.layout import pipe_table, without_markup, words
from profkit.report.sections import Section
from profkit.report.waterfall import blocks, floor_line, shown_fall, table, wall_blocks
from profkit.report.words import say

if TYPE_CHECKING:
    from profkit.study.study import Study


def report(study: Study) -> str:
    """First lines, parts, where the time goes, what next, picture, kernels, floor, how it was measured, doubts that
    matter, how to do it again.
    """
    blocks = [*_head(study), *(_section(one) for one in (*_fall(study), *sections.sections(study)))]
    return without_markup("\n\n".join(blocks).rstrip() + "\n")


def _head(study: Study) -> Iterator[str]:
    yield f"# {sections.title(study)}"
    yield "\n".join(f"**{line}**  " for line in sections.first_lines(study)).rstrip()
    missing, fix = sections.counters_line(study), study.manifest.counters.fix
    if missing:
        yield f"> {missing}." + (f" Fix: {fix}." if fix else "")
    parts = sections.parts_table(study)
    yield from [pipe_table(parts)] if parts.rows else []
    paired, uncounted = sections.paired_line(study), sections.uncounted_line(study)
    yield from [f"{paired}."] if paired else []
    yield from [uncounted] if uncounted else []


def _fall(study: Study) -> Iterator[Section]:
    """The waterfall of the best, or of a step of a program, as a table."""
    found = study.findings()
    wall = next((one for one in study.budgets.items() if one[1].window > 0), None)
    if wall is not None:
        name, budget = wall
        shown = table(wall_blocks(budget, name, found), sections.per(study, "p_one", "en"), budget.step)
        yield Section(say("p_fall_title", "en"), tables=(shown,))
        return
    best = shown_fall(study)
    mine = blocks(study, best, found) if best is not None else []
    if best is not None and mine:
        head = say("p_now" if study.manifest.impls else "p_now_gpu", "en")
        head = f"{best or NO_RANGE}: {head}" if len(study.parts) > 1 or best else head
        note = floor_line(study, best)
        shown = table(mine, head, study.waterfalls[best].time)
        yield Section(say("p_fall_title", "en"), f"{note}." if note else "", tables=(shown,))


def _section(one: Section) -> str:
    blocks = [f"## {one.heading}", words(one.note), "\n".join(f"- {words(line)}" for line in one.lines)]
    blocks += [*map(pipe_table, one.tables), f"```\n{one.block}\n```" if one.block else "", one.after]
    return "\n\n".join(block for block in blocks if block)
