"""Two or more programs by their steady step: what was compared, in words and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
import pandas as pd

from analyzers.compare import Ladder
from analyzers.timeline.budget import SLICES
from analyzers.timeline.compare import (
    APPEARED,
    FEWEST,
    GONE,
    PASSAGES,
    RECORD,
    SERIAL,
    STEPS,
    Programs,
    Rung,
    Taken,
    compare_steps,
)
from analyzers.timeline.idle import IDLE
from analyzers.verdicts.speedup import shown
from profkit.errors import ProfkitError
from profkit.report.ladder import (
    COLOURS,
    Chosen,
    chosen_of,
    interval,
    ladder_of,
    machine,
    ratio_text,
    told_apart,
)
from profkit.report.ladder import text as ladder_text
from profkit.report.layout import Column, Table, column, terminal_table
from profkit.report.messages import say
from profkit.report.names import short_names
from profkit.report.sections import answer, caveats
from roofline import units

if TYPE_CHECKING:
    from profkit.study.study import Study

MOST_PIECES, LEAST = 14, 5e-4
"""Kernels, copies and fills whose change a table names, and the share of the longer step from which it does; the rest are one
line."""
_ENDINGS = {STEPS: "_step", PASSAGES: "_passage", RECORD: "_all"}
_INSIDE = "- "
"""Before a part of a row above it."""


@dataclass(frozen=True, repr=False)
class Compared:
    """Compared runs: implementations as a ladder, or programs by their steady step."""

    studies: tuple[Study, ...]
    ladder: Ladder | Programs
    chosen: tuple[Chosen, ...] = ()

    @property
    def frame(self) -> pd.DataFrame:
        """One row a step, SI units."""
        frame: pd.DataFrame = pd.DataFrame(self.ladder.to_dict()["steps"])
        return frame

    def __repr__(self) -> str:
        return click.unstyle(self.text())

    def text(self) -> str:
        """The comparison for the terminal."""
        return ladder_text(self.ladder) if isinstance(self.ladder, Ladder) else text(self.studies, self.ladder)

    def slower(self, limit: float = 0.0) -> list[Any]:
        """Steps slower than the first by more than `limit`. Raises ProfkitError if unknown."""
        if self.ladder.apart:
            raise ProfkitError(
                f"cannot gate: the runs differ in {', '.join(self.ladder.apart)}",
                fix="measure BEFORE and AFTER on one device, by one method, at one clock, programs by the same window",
            )
        unknown = self.ladder.unknown if isinstance(self.ladder, Programs) else ()
        if unknown:
            raise ProfkitError(
                f"cannot gate: too few steps for an interval: {', '.join(unknown)}",
                fix=f"record {FEWEST} steps at least, better {SERIAL}, on each side",
            )
        return list(self.ladder.regressions(limit))

    def inconclusive(self, limit: float) -> list[Rung]:
        """The programs that may be slower by more than this share, or not."""
        return self.ladder.inconclusive(limit) if isinstance(self.ladder, Programs) else []


def compared(named: Sequence[tuple[Study, str]]) -> Compared:
    """Compare runs, each with an implementation or "". Raises ProfkitError."""
    found = programs_of(named)
    if found is not None:
        return Compared(tuple(study for study, _ in named), found)
    chosen = tuple(chosen_of(*one) for one in named)
    return Compared(tuple(one.study for one in chosen), ladder_of(chosen), chosen)


def programs_of(named: Sequence[tuple[Study, str]]) -> Programs | None:
    """Compare programs by their step; None where none has one. Raises ProfkitError."""
    stepwise = [study.stepwise for study, _ in named]
    if not any(stepwise):
        return None
    part = next((f"{study.path}:{impl}" for study, impl in named if impl), "")
    if part:
        fix = "name the run alone: the step's kernels are compared by name; --range records one range by itself"
        raise ProfkitError(f"{part}: a program is compared by its step, not by a part of its record", fix=fix)
    if not all(stepwise):
        other = next(study for (study, _), by_step in zip(named, stepwise, strict=True) if not by_step)
        what = "implementations of a sample" if other.manifest.impls else "no timeline, so that no step is known"
        fix = "compare programs with programs, each recorded by `profkit profile --nsys -- COMMAND` or imported from a trace"
        raise ProfkitError(f"{other.path} has {what}: not to be compared with a program", fix=fix)
    studies = [study for study, _ in named]
    labels = told_apart(studies, [study.manifest.sample.id for study in studies])
    return compare_steps([_taken(study, label) for study, label in zip(studies, labels, strict=True)])


def _taken(study: Study, label: str) -> Taken:
    known, manifest = study.longest_step, study.manifest
    if known is None:
        raise ProfkitError(f"{study.path}: no step is known", fix="record it with --nsys")
    device, budget, steps = known
    frame = study.captured.timeline
    facts = {**machine(manifest), "method": frame["tool"].iloc[0] if frame is not None else ""}
    within = manifest.window.range if budget.steady.found == "range" else ""
    return Taken(label, budget, steps, device, len(study.budgets), within, facts)


# ---- words


def lead(found: Programs) -> str:
    """Speed-up of the last program over the first, with its interval."""
    first, last = found.rungs[0], found.rungs[-1]
    times = {"before": units.text(first.time, "s"), "after": units.text(last.time, "s")}
    names = {"first": first.label, "last": last.label}
    if math.isnan(last.total):
        windows = {"before": window(first.taken), "after": window(last.taken)}
        return say("st_unlike", **names, **windows)
    counts = {"few": str(first.taken.known), "many": str(last.taken.known)}
    key = "st_sure" if last.since.low == last.since.low else "st_unsure"
    sure = say(key, word=say(f"c_{last.since.verdict}"), interval=interval(last.since), **counts)
    return per(found, "st_lead", ratio=shown(last.total, "ratio"), sure=sure, **names, **times)


def per(found: Programs, key: str, **values: str) -> str:
    """Words of `key` for a step, a passage or a record."""
    windows = {one.taken.window for one in found.rungs}
    return say(key + _ENDINGS[windows.pop() if len(windows) == 1 else RECORD], **values)


def window(one: Taken) -> str:
    """ "steady state, 5 steps"."""
    said = say(f"st_window{_ENDINGS[one.window]}", count=str(one.counted), range=one.within)
    return said + (say("st_of_device", device=one.device, count=str(one.devices)) if one.devices > 1 else "")


def sides_table(found: Programs) -> Table:
    """One row a program: window, time of a step, GPU work, launches, speed-up."""
    taken = [one.taken for one in found.rungs]
    rows = [{"time": one.budget.step, "share": one.budget.busy / one.budget.step} for one in taken]
    since = [ratio_text(one.since.value, one.since) for one in found.rungs]
    return Table.of(
        [
            Column(say("st_program"), [one.label for one in taken]),
            column(per(found, "st_time"), rows, "time", "s"),
            Column(say("st_range"), [answer.spread(one.budget) for one in taken], 3),
            Column(say("c_step"), [ratio_text(one.ratio.value, one.ratio) for one in found.rungs]),
            Column(say("since"), since if len(since) > 2 else [units.MISSING] * len(since), 4),
            column(say("st_busy"), rows, "share", "%", 2),
            Column(say("st_busy_ratio"), [ratio_text(one.busy.value, one.busy) for one in found.rungs], 1),
            Column(per(found, "st_launched"), [answer.launched(one.budget) for one in taken], 6),
            Column(say("st_window"), [window(one) for one in taken], 5),
        ]
    )


def slices(found: Programs) -> list[tuple[str, list[float]]]:
    """(kind, seconds of each program's step): step, GPU work, idle, each with its parts."""
    taken = [one.taken for one in found.rungs]
    told = [(per(found, "st_whole"), [one.budget.step for one in taken])]
    for head, kinds in (("st_busy", SLICES[: -len(IDLE)]), ("wall_idle", IDLE)):
        parts = [(kind, [one.part(kind) for one in taken]) for kind in kinds]
        told.append((say(head), [sum(each) for each in zip(*(each for _, each in parts), strict=True)]))
        told += [(_INSIDE + say(f"wall_{kind}"), each) for kind, each in parts if any(each)]
    return told


def slices_table(found: Programs) -> Table:
    """A row a part of a step, a column a program, and what the last has more than the first."""
    told = slices(found)
    labels = [one.label for one in found.rungs]
    columns = [Column(name, [units.text(each[at], "s") for _, each in told]) for at, name in enumerate(labels)]
    gained = Column(say("c_change"), [change(each[-1] - each[0]) for _, each in told])
    return Table.of([Column(per(found, "st_part"), [name for name, _ in told]), *columns, gained])


def change(seconds: float) -> str:
    """ "+1.2 ms", "-30 us"."""
    return ("+" if seconds > 0 else "-" if seconds < 0 else "") + units.text(abs(seconds), "s")


def pieces_table(found: Programs, at: int) -> Table:
    """Kernels, copies and fills against the program before, the largest change first."""
    before, after = found.rungs[at - 1], found.rungs[at]
    least = LEAST * max(before.time, after.time)
    large = [one for one in after.pieces if abs(one.gained) >= least or one.word in (APPEARED, GONE)]
    named, rest = large[:MOST_PIECES], [one for one in after.pieces if one not in large[:MOST_PIECES]]
    short = short_names(one.name for one in after.pieces)
    rows = [
        [
            short[one.name],
            " -> ".join(dict.fromkeys(map(answer.many, (one.count_before, one.count_after)))),
            *(units.text(seconds, "s") if seconds else units.MISSING for seconds in (one.before, one.after)),
            change(one.gained),
            say(f"st_{one.word}"),
        ]
        for one in named
    ]
    if rest:
        sums = [sum(one.before for one in rest), sum(one.after for one in rest)]
        times = [units.text(one, "s") for one in sums]
        rows.append([say("c_rest", count=str(len(rest))), "", *times, change(sums[1] - sums[0]), ""])
    heads = say("st_piece"), per(found, "col_launches"), before.label, after.label, say("st_change")
    return Table([*heads, say("st_word")], rows, (0, 4, 2, 2, 0, 0)) if rows else Table([], [])


def caveats_of(studies: Sequence[Study], found: Programs) -> list[caveats.Said]:
    """Caveats of the comparison, then those of each program."""
    own = [caveats.concerning(study, "") for study in studies]
    shared = [one for one in own[0] if all(one in mine for mine in own)]
    told = [
        replace(one, what=rung.label + say("colon") + one.what)
        for rung, mine in zip(found.rungs, own, strict=True)
        for one in mine
        if one not in shared
    ]
    return [*map(caveats.Said.of, found.caveats), *shared, *told]


def text(studies: Sequence[Study], found: Programs) -> str:
    """Comparison of programs for the terminal."""
    tones = [COLOURS.get(one.verdict) for one in found.rungs]
    blocks = [lead(found), "", terminal_table(sides_table(found), tones=tones)]
    blocks += [terminal_table(slices_table(found))]
    for at in range(1, len(found.rungs)):
        table = pieces_table(found, at)
        blocks += [terminal_table(table)] if table.rows else []
    blocks.append(say("st_note"))
    blocks += [say("c_caveat") + one.with_fix() for one in caveats_of(studies, found)]
    return "\n".join(blocks)
