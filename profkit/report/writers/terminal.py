"""What a person sees after a run."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from analyzers.verdicts.verdict import WORDS
from profkit.report import sections
from profkit.report.layout import terminal_table
from profkit.report.messages import say
from profkit.report.sections import tried

if TYPE_CHECKING:
    from profkit.study.study import Study

LAST_LINES = 8
_COLOURS = {"faster": "green", "slower": "red", "same": "yellow", "inconclusive": "yellow"}


def tone(word: str) -> str | None:
    """The colour of a verdict; None for what is none, like a reference."""
    return _COLOURS.get(word, "red" if word in WORDS and word != "skipped" else None)


def summary(study: Study, told: Mapping[str, str] = MappingProxyType({})) -> str:
    """The whole answer in a screenful, verdicts in colour. told: sentences that were shown before, by candidate."""
    tones = {name: tone(one.word) for name, one in study.verdicts.items()}
    blocks = [*answer(study, told, [name for name, _ in sections.sentences(study)]), ""]
    parts = sections.parts_table(study)
    blocks += [terminal_table(parts, tones=[tones.get(row[0]) for row in parts.rows])] if parts.rows else []
    for more in (sections.shapes_table(study), sections.passes_table(study)):
        blocks += ["", terminal_table(more)] if more.rows else []
    if not study.manifest.impls and len(study.hottest):
        blocks.append(terminal_table(sections.kernels_table(study)))
    missing, fix = sections.counters_line(study), study.manifest.counters.fix
    notes = [sections.timing_line(study), sections.paired_line(study), sections.uncounted_line(study), missing]
    blocks += [note for note in notes if note] + ([f"  fix: {fix}"] if missing and fix else [])
    blocks += sections.inferred_lines(study)
    blocks += sections.timeline_lines(study)
    blocks += _listed("compute-sanitizer:", sections.sanitizer_lines(study))
    weak = [_caveat(one) for one in sections.that_matter(study)]
    blocks += _listed("caveats:", [line for line in (*weak, sections.more_caveats(study)) if line])
    for impl, tail in sections.last_lines(study):
        blocks += [f"last lines of {impl.name}:", *("  | " + line for line in tail.splitlines()[-LAST_LINES:])]
    return "\n".join(blocks)


def answer(study: Study, told: Mapping[str, str], names: Collection[str]) -> list[str]:
    """First lines about these, in the colours of their verdicts, under the title; of what was told, what is new or amended."""
    tones = {name: tone(one.word) for name, one in study.verdicts.items()}
    lines = [(name, line) for name, line in sections.sentences(study) if name in names and told.get(name) != line]
    shown = [(name, say("amended", line=line) if name in told else line) for name, line in lines]
    head = [] if told else [sections.title(study), ""]
    return head + [click.style(line, fg=tones.get(name), bold=True) for name, line in shown]


def _listed(head: str, lines: Sequence[str]) -> list[str]:
    return [head, *(f"  - {line}" for line in lines)] if lines else []


def _caveat(one: sections.Said) -> str:
    return one.what + (f": {one.how_much}" if one.how_much else "") + (f" (fix: {one.fix})" if one.fix else "")


def overview(studies: Sequence[Study]) -> str:
    """One line a candidate of many runs."""
    table, missing = sections.overview(studies)
    tones = [tone(one.verdicts[part.name].word) if part.name in one.verdicts else None for one, part in tried(studies)]
    return "\n".join([terminal_table(table, tones=tones) if table.rows else "nothing was measured", *missing])


def next_steps(study: Study, files: Sequence[Path]) -> str:
    """The commands a person wants now, with real names."""
    here = shlex.quote(str(study.path))
    lines = [f"run directory: {study.path}" + (f"  ({', '.join(file.name for file in files)})" if files else "")]
    lines.append(f"next: profkit explain {here}    # why, and what to try")
    lines.append(f"      profkit report {here} -o report.html    # one page for everybody")
    if study.manifest.counters.state == "missing" and study.manifest.device.get("kind") == "cuda":
        lines.append("      profkit doctor" + " " * 20 + "# why there are no counters")
    return "\n".join(lines)
