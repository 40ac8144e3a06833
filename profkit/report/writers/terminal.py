"""Terminal text after a measurement."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from analyzers.verdicts.verdict import WORDS
from profkit.report.layout import terminal_table
from profkit.report.messages import judged, say
from profkit.report.sections import answer, caveats, method, tables

if TYPE_CHECKING:
    from analyzers.verdicts.verdict import Verdict
    from profkit.study.study import Study

LAST_LINES = 8
_MEASUREMENT = ("wide", "wider", "busy", "clocks", "few", "near", "waits")
"""Conditions of the measurement, not of the candidate."""
_COLOURS = {"faster": "green", "slower": "red", "same": "yellow", "inconclusive": "yellow"}


def tone(word: str) -> str | None:
    """Colour of a verdict; None for a word that is no verdict."""
    return _COLOURS.get(word, "red" if word in WORDS and word != "skipped" else None)


def summary(study: Study, told: Mapping[str, str] = MappingProxyType({})) -> str:
    """The answer in a screenful, in colour. told: sentences already shown, by candidate."""
    tones = {name: tone(one.word) for name, one in study.verdicts.items()}
    blocks = [*lines(study, told, [name for name, _ in answer.sentences(study)]), ""]
    table = tables.parts_table(study)
    blocks += [terminal_table(table, tones=[tones.get(row[0]) for row in table.rows])] if table.rows else []
    for more in (tables.shapes_table(study), tables.passes_table(study)):
        blocks += ["", terminal_table(more)] if more.rows else []
    if not study.manifest.impls and len(study.hottest):
        blocks.append(terminal_table(tables.kernels_table(study)))
    blocks += [method.timing_line(study), *method.notes(study)]
    blocks += filter(None, (method.right_line(study), method.counters_note(study)))
    blocks += method.inferred_lines(study)
    blocks += tables.thread_lines(study)
    blocks += _listed("compute-sanitizer:", caveats.sanitizer_lines(study))
    weak = [one.with_fix() for one in caveats.that_matter(study)]
    blocks += _listed(say("t_caveats"), [line for line in (*weak, caveats.more_caveats(study)) if line])
    for impl, tail in caveats.last_lines(study):
        blocks += [say("t_output", name=impl.name), *("  | " + line for line in tail.splitlines()[-LAST_LINES:])]
    return "\n".join(blocks)


def lines(study: Study, told: Mapping[str, str], names: Collection[str]) -> list[str]:
    """First lines in colour under the title; later only new or amended lines."""
    tones = {name: tone(one.word) for name, one in study.verdicts.items()}
    new = [(name, line) for name, line in answer.sentences(study) if name in names and told.get(name) != line]
    shown = [(name, say("amended", line=line) if name in told else line) for name, line in new]
    head = [] if told else [answer.title(study), ""]
    return head + [click.style(line, fg=tones.get(name), bold=True) for name, line in shown]


def _listed(head: str, lines: Sequence[str]) -> list[str]:
    return [head, *(f"  - {line}" for line in lines)] if lines else []


def overview(studies: Sequence[Study]) -> str:
    """One line per candidate of many runs."""
    table, missing = tables.overview(studies), sorted({method.counters_line(one) for one in studies} - {""})
    verdicts = [one.verdicts.get(part.name) for one in studies for part in one.parts]
    tones = [tone(one.word) if one is not None else None for one in verdicts]
    return "\n".join([terminal_table(table, tones=tones) if table.rows else "nothing was measured", *missing])


def next_steps(study: Study, files: Sequence[Path]) -> str:
    """Next commands, with this run's paths."""
    here = shlex.quote(str(study.path))
    made = f"  ({', '.join(file.name for file in files)})" if files else ""
    commands = {"nx_explain": f"profkit explain {here}", "nx_report": f"profkit report {here} -o report.html"}
    if study.manifest.counters.state == "missing" and study.manifest.device.get("kind") == "cuda":
        commands["nx_doctor"] = "profkit doctor"
    told = [say(key, command=command) for key, command in commands.items()]
    return "\n".join([say("nx_run", path=str(study.path)) + made, *told])


def changes(before: Study, now: Study, names: Collection[str]) -> list[str]:
    """Change per candidate of both runs, "cuda: 1.76x -> 1.92x", and what became worse."""
    found = []
    for name, new in now.verdicts.items():
        old = before.verdicts.get(name)
        if name in names and old is not None and "skipped" not in (old.word, new.word):
            paces = [f"{one.speedup:.3g}x" if one.right and one.speedup > 0 else one.word for one in (old, new)]
            worse = [say("change_worse", what=one) for one in worsened(old, new)]
            found.append(name + say("colon") + say("comma").join([" -> ".join(paces), *worse]))
    return found


def worsened(old: Verdict, new: Verdict) -> Iterator[str]:
    """Slower beyond both intervals on a quiet machine, and new conditions."""
    known = {one.code for one in old.conditions}
    busy = "busy" in known or any(one.code == "busy" for one in new.conditions)
    if old.right and new.right and new.high < old.low and not busy:
        yield say("change_slower")
    for one in new.conditions if new.right else ():
        if one.code not in known and one.code not in _MEASUREMENT:
            yield judged(one)
