"""report.md: ready to paste into a PR readme."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from profkit.report import sections
from profkit.report.layout import pipe_table, without_markup, words
from profkit.report.sections import Section

if TYPE_CHECKING:
    from profkit.study.study import Study


def report(study: Study) -> str:
    """First lines, parts, picture, what next, kernels, floor, how it was measured, doubts, how to do it again."""
    blocks = [*_head(study), *(_section(one) for one in sections.sections(study))]
    return without_markup("\n\n".join(blocks).rstrip() + "\n")


def _head(study: Study) -> Iterator[str]:
    yield f"# {sections.title(study)}"
    yield "\n".join(f"**{line}**  " for line in sections.first_lines(study)).rstrip()
    missing, fix = sections.counters_line(study), study.manifest.counters.fix
    if missing:
        yield f"> {missing}." + (f" Fix: {fix}." if fix else "")
    parts, uncounted = sections.parts_table(study), sections.uncounted_line(study)
    yield from [pipe_table(parts)] if parts.rows else []
    yield from [uncounted] if uncounted else []
    yield "![roofline](roofline.png)"


def _section(one: Section) -> str:
    blocks = [f"## {one.heading}", words(one.note), "\n".join(f"- {words(line)}" for line in one.lines)]
    blocks += [*map(pipe_table, one.tables), f"```\n{one.block}\n```" if one.block else "", one.after]
    return "\n\n".join(block for block in blocks if block)
