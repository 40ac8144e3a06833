"""Compare runs: implementations as an optimisation ladder, programs by their steady step."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pandas as pd

from analyzers.compare import Ladder, Moved, Step, compare
from analyzers.compare import Rung as LadderRung
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
    compare_steps,
)
from analyzers.timeline.idle import IDLE
from analyzers.verdicts.speedup import shown
from profkit.errors import ProfkitError
from profkit.report.layout import Column, Table, column, terminal_table
from profkit.report.messages import bound, bound_word, of_roof, say
from profkit.report.names import short_names
from profkit.report.sections import answer, caveats
from profkit.report.sections.tables import spelled
from profkit.study.study import open_study
from profkit.study.verdicts import loaded
from roofline import units

if TYPE_CHECKING:
    from analyzers.verdicts.statistics import Ratio
    from profkit.rundir.manifest import Manifest
    from profkit.study.study import Study

COLOURS = {"faster": "green", "slower": "red", "inconclusive": "yellow"}
MOST_PIECES, LEAST = 14, 5e-4
"""Rows of the table of changed kernels, copies and fills, and the share of the longer step needed for a row."""
_ENDINGS = {STEPS: "_step", PASSAGES: "_passage", RECORD: "_all"}
_UNITS = dict.fromkeys(("bytes", "dram_bytes", "l2_bytes", "l1_bytes", "shared_memory"), "B") | {"flops": "FLOP"}


@dataclass(frozen=True)
class Chosen:
    """An implementation of a run, `RUN` or `RUN:impl`; "" for a whole program on a CPU."""

    study: Study
    impl: str

    @property
    def row(self) -> dict[str, Any]:
        study = self.study
        if self.impl or not (study.of_operators and study.wall > 0):
            return study.analysis.impl(self.impl)
        first = next(iter(study.analysis.rows.values()))
        nothing = {name: "" if isinstance(one, str) else math.nan for name, one in first.items()}
        return {**nothing, "time": study.wall, "method": first["method"]}


@dataclass(frozen=True, repr=False)
class Compared:
    """Runs compared as a ladder of implementations or as programs."""

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

    @property
    def caveats(self) -> list[caveats.Said]:
        """Caveats of the comparison, caveats common to all runs, then each run's other ones."""
        steps = [(one.study, one.impl) for one in self.chosen] or [(study, "") for study in self.studies]
        own, labels = [caveats.concerning(*step) for step in steps], [rung.label for rung in self.ladder.rungs]
        shared = [one for one in own[0] if all(one in mine for mine in own)]
        return [*map(caveats.Said.of, self.ladder.caveats), *shared] + [
            replace(one, what=label + say("colon") + one.what.removeprefix(impl + say("colon")))
            for label, (_, impl), mine in zip(labels, steps, own, strict=True)
            for one in mine
            if one not in shared
        ]

    def text(self) -> str:
        """The comparison for the terminal: tables, what moved, the convention and the caveats."""
        found, tones = self.ladder, [COLOURS.get(rung.verdict) for rung in self.ladder.rungs]
        if isinstance(found, Ladder):
            moves = [f"  {rung.label}: {'; '.join(map(moved, rung.moved))}" for rung in found.rungs if rung.moved]
            blocks = [
                terminal_table(ladder_table(found, self.chosen), tones=tones),
                *([f"{say('moved')}:", *moves] if moves else []),
            ]
        else:
            pieces = [pieces_table(found, at) for at in range(1, len(found.rungs))]
            blocks = [lead(found), "", terminal_table(sides_table(found), tones=tones)]
            blocks += [terminal_table(one) for one in (slices_table(found), *pieces) if one.rows]
        note = say("c_note" if isinstance(found, Ladder) else "st_note")
        return "\n".join([*blocks, note, *(say("c_caveat") + one.with_fix() for one in self.caveats)])

    def slower(self, limit: float = 0.0) -> list[Any]:
        """Steps slower than the first by more than `limit`. Raises ProfkitError if unknown."""
        if self.ladder.apart:
            raise ProfkitError(
                f"cannot gate: the runs differ in {', '.join(self.ladder.apart)}",
                fix="measure BEFORE and AFTER on one device, with one method, clock and window",
            )
        unknown = self.ladder.unknown if isinstance(self.ladder, Programs) else ()
        if unknown:
            raise ProfkitError(
                f"cannot gate: too few steps for an interval: {', '.join(unknown)}",
                fix=f"record at least {FEWEST} steps on each side, better {SERIAL}",
            )
        return list(self.ladder.regressions(limit))

    def gate(self, limit: float | None) -> tuple[str, str]:
        """(outcome of the gate, its colour class), empty without a limit. Raises ProfkitError."""
        if limit is None:
            return "", ""
        slower, unsure = self.slower(limit), self.ladder.inconclusive(limit)
        key, mood = ("c_regressed", "wrong") if slower else ("c_unsure", "") if unsure else ("c_passed", "faster")
        steps = [f"{rung.label} +{units.percent(1 / rung.since.value - 1)}" for rung in slower]
        return say(key, steps=", ".join(steps or [rung.label for rung in unsure]), limit=units.percent(limit)), mood


# ---- what is compared


def choose(names: Sequence[str | Study]) -> list[Chosen]:
    """Open the runs named on the command line; each run is read once."""
    return [chosen_of(*one) for one in named_runs(names)]


def named_runs(names: Sequence[str | Study]) -> list[tuple[Study, str]]:
    """Split each word RUN:IMPL into (run, implementation or "").

    The last colon behind a path splits; words with the same run share one Study.
    """
    opened: dict[Path, Study] = {}
    pairs = list[tuple["Study", str]]()
    for name in names:
        if not isinstance(name, str):
            pairs.append((name, ""))
            continue
        ends = [at for at in range(len(name), 0, -1) if at == len(name) or name[at] == ":"]
        end = next((at for at in ends if Path(name[:at]).exists()), ends[-1])
        found = open_study(name[:end])
        pairs.append((opened.setdefault(found.path.resolve(), found), name[end + 1 :]))
    return pairs


def chosen_of(study: Study, impl: str = "") -> Chosen:
    """Choose an implementation of a run: by default its fastest correct candidate.

    A program's default is its whole time, else its longest part. Raises ProfkitError.
    """
    if not impl and study.of_operators and study.wall > 0:
        return Chosen(study, "")
    rows = {name: row for name, row in study.analysis.rows.items() if row["time"] > 0}
    if impl and impl not in rows:
        raise ProfkitError(
            f"{study.path}: no time of {impl!r}", fix=f"timed here: {', '.join(filter(None, rows)) or 'nothing'}"
        )
    if not impl:
        sound = [one.name for one in study.manifest.candidates if one.ok and one.name in rows]
        names = sound or list(rows)
        if not names:
            raise ProfkitError(f"{study.path}: nothing was timed", fix="measure the sample again")
        impl = (min if study.manifest.impls else max)(names, key=lambda one: float(rows[one]["time"]))
    return Chosen(study, impl)


def told_apart(studies: Sequence[Study], short: Sequence[str]) -> list[str]:
    """Make labels unique: add the run's name, "before" and "after", or the position."""
    if len(set(short)) == len(short):
        return list(short)
    own = [study.path.name for study in studies]
    if len(set(own)) < len(own) or any(re.match(r"\d{8}T\d{6}Z", one) for one in own):
        own = ["before", "after"] if len(own) == 2 else [str(place) for place, _ in enumerate(own, 1)]
    return [f"{name} ({run})" for name, run in zip(short, own, strict=True)]


def compared(named: Sequence[tuple[Study, str]]) -> Compared:
    """Compare runs; each pair is (run, implementation or ""). Raises ProfkitError."""
    stepwise = [study.stepwise for study, _ in named]
    if not any(stepwise):
        chosen = tuple(chosen_of(*one) for one in named)
        return Compared(tuple(one.study for one in chosen), ladder_of(chosen), chosen)
    if part := next((f"{study.path}:{impl}" for study, impl in named if impl), ""):
        fix = "give only the run; kernels of the step are compared by name; --range records a single range"
        raise ProfkitError(f"{part}: programs are compared by their step, not by parts", fix=fix)
    if not all(stepwise):
        other = next(study for (study, _), by_step in zip(named, stepwise, strict=True) if not by_step)
        what = "implementations of a sample" if other.manifest.impls else "no timeline, so no steps"
        fix = "compare programs with programs, each recorded by `profkit profile --nsys -- COMMAND` or imported from a trace"
        raise ProfkitError(f"{other.path} has {what}: cannot be compared with a program", fix=fix)
    studies = tuple(study for study, _ in named)
    labels = told_apart(studies, [study.manifest.sample.id for study in studies])
    return Compared(studies, compare_steps([_taken(*one) for one in zip(studies, labels, strict=True)]))


def ladder_of(chosen: Sequence[Chosen]) -> Ladder:
    """The comparison of these implementations, in order."""
    names = told_apart([one.study for one in chosen], [one.impl or one.study.manifest.sample.id for one in chosen])
    return compare([_step(one, name) for one, name in zip(chosen, names, strict=True)])


def _machine(manifest: Manifest) -> dict[str, Any]:
    """Facts that two runs must share for their times to be compared."""
    of_device = {name: manifest.device.get(name) for name in ("name", "uuid", "driver")}
    versions = {name: manifest.versions.get(name) for name in ("torch", "cuda")}
    return {"device": of_device.pop("name"), **of_device, **versions}


def _step(chosen: Chosen, label: str) -> Step:
    """One implementation as input of analyzers.compare."""
    study, manifest, row, kernels = chosen.study, chosen.study.manifest, chosen.row, chosen.study.kernels
    # Facts of one kernel (registers, occupancy) are compared only where there is one: the longest. Operators have none.
    own_kernels = len(kernels) and not study.of_operators
    mine = kernels[kernels["impl"] == chosen.impl].to_dict("records") if own_kernels else []
    kernel = {str(key): value for key, value in mine[0].items()} if mine else {}
    impl = next((one for one in manifest.impls if one.name == chosen.impl), None)
    own = [ref for ref in manifest.sample.files.values() if impl is not None and ref.path == impl.file]
    reference, timings = manifest.sample.files.get("reference"), study.timings
    clock = math.nan
    if timings is not None and "sm_clock" in timings:
        clock = float(timings.loc[timings["impl"] == chosen.impl, "sm_clock"].median())
    facts = {
        **_machine(manifest),
        "sample": manifest.sample.id,
        "inputs": ", ".join(manifest.inputs),
        "method": row.get("method"),
        "window": "" if manifest.impls else manifest.window.range or "the whole",
        "l2": row.get("l2"),
        "sm_clock": clock,
        "clock_control": manifest.counters.clock_control if manifest.counters.state == "collected" else "",
        "reference": reference.sha256[:12] if reference else "",
    }
    files = {ref.path: ref.sha256 for ref in own}
    return Step(label, chosen.impl, row, kernel, facts, files, str(study.path), loaded(study, chosen.impl))


def _taken(study: Study, label: str) -> Rung:
    known, manifest = study.longest_step, study.manifest
    if known is None:
        raise ProfkitError(f"{study.path}: no steps known", fix="record it with --nsys")
    device, budget, steps = known
    frame = study.captured.timeline
    facts = {**_machine(manifest), "method": frame["tool"].iloc[0] if frame is not None else ""}
    within = manifest.window.range if budget.steady.found == "range" else ""
    return Rung(label, budget, steps, device, len(study.budgets), within, facts)


# ---- the steps of a ladder


def ladder_table(ladder: Ladder, chosen: Sequence[Chosen], correct: Sequence[str] = ()) -> Table:
    """One row per step; all times in one unit."""
    rungs = ladder.rungs
    same = say("c_same_file") if all(one.study.manifest.impls for one in chosen) else units.MISSING
    first, *others = [", ".join(rung.changed) for rung in rungs]
    unit, times = units.column([rung.time for rung in rungs], "s")
    return Table.of(
        [
            Column(say("implementation"), [rung.label for rung in rungs]),
            Column(say("measure"), [first or units.MISSING, *(one or same for one in others)], 5),
            Column(say("correct"), correct or [units.MISSING] * len(rungs), 5),
            Column(f"{say('time')} [{unit}]", times),
            Column(say("c_step"), [ratio_text(rung.step, rung) for rung in rungs]),
            Column(
                say("since"), [shown(rung.total, "ratio") if len(rungs) > 2 else units.MISSING for rung in rungs], 3
            ),
            Column(say("js_frac"), [of_roof(one.row) for one in chosen], 4),
            Column(say("x_lower_bound"), [answer.far(one.row) for one in chosen], 4),
            Column(say("bound_by"), [(bound(one.row) and bound_word(one.row)) or units.MISSING for one in chosen], 2),
        ]
    )


def ratio_text(value: float, one: LadderRung | Ratio) -> str:
    """ "1.35x [1.3, 1.41] faster"; a dash where nothing is compared."""
    if math.isnan(value):
        return units.MISSING
    return f"{spelled(value, one.low, one.high)} {say(f'c_{one.verdict}')}"


def interval(one: LadderRung | Ratio) -> str:
    """ "[1.30, 1.41]"."""
    return spelled(math.nan, one.low, one.high).partition(" ")[2]


def moved(one: Moved) -> str:
    """ "DRAM traffic 2.58 GB -> 268 MB"."""
    share = one.name.endswith(("_fraction", "_share", "occupancy", "issue_active"))
    unit, show = _UNITS.get(one.name, ""), units.percent if share else units.count
    before, after = (units.text(value, unit) if unit else show(value) for value in (one.before, one.after))
    return f"{say(f'moved_{one.name}')} {before} -> {after}"


# ---- the steps of programs


def lead(found: Programs) -> str:
    """Sentence with the speed-up of the last program over the first and its interval."""
    first, last, since = found.rungs[0], found.rungs[-1], found.rungs[-1].since
    times = {"before": units.text(first.time, "s"), "after": units.text(last.time, "s")}
    names = {"first": first.label, "last": last.label}
    if math.isnan(since.value):
        return say("st_unlike", **names, before=_window(first), after=_window(last))
    counts = {"few": str(first.known), "many": str(last.known)}
    key = "st_unsure" if math.isnan(since.low) else "st_sure"
    sure = say(key, word=say(f"c_{since.verdict}"), interval=interval(since), **counts)
    return per(found, "st_lead", ratio=shown(since.value, "ratio"), sure=sure, **names, **times)


def per(found: Programs, key: str, **values: str) -> str:
    """The message `key` for a step, a passage or a whole record."""
    windows = {one.window for one in found.rungs}
    return say(key + _ENDINGS[windows.pop() if len(windows) == 1 else RECORD], **values)


def _window(one: Rung) -> str:
    """ "steady state, 5 steps"."""
    said = say(f"st_window{_ENDINGS[one.window]}", count=str(one.counted), range=one.within)
    return said + (say("st_of_device", device=one.device, count=str(one.devices)) if one.devices > 1 else "")


def sides_table(found: Programs) -> Table:
    """One row per program: window, step time, GPU work, launches, speed-up."""
    taken = found.rungs
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
            Column(say("st_window"), [_window(one) for one in taken], 5),
        ]
    )


def slices_table(found: Programs) -> Table:
    """One row per part of a step, one column per program, and the change from first to last.

    Parts: the step, GPU work and idle time; the last two are split further.
    """
    taken = found.rungs
    told = [(per(found, "st_whole"), [one.budget.step for one in taken])]
    for head, kinds in (("st_busy", SLICES[: -len(IDLE)]), ("wall_idle", IDLE)):
        parts = [(kind, [one.part(kind) for one in taken]) for kind in kinds]
        told.append((say(head), [sum(each) for each in zip(*(each for _, each in parts), strict=True)]))
        told += [(f"- {say(f'wall_{kind}')}", each) for kind, each in parts if any(each)]
    return Table.of(
        [
            Column(per(found, "st_part"), [name for name, _ in told]),
            *(Column(one.label, [units.text(each[at], "s") for _, each in told]) for at, one in enumerate(taken)),
            Column(say("c_change"), [_change(each[-1] - each[0]) for _, each in told]),
        ]
    )


def _change(seconds: float) -> str:
    """ "+1.2 ms", "-30 us"."""
    return ("+" if seconds > 0 else "-" if seconds < 0 else "") + units.text(abs(seconds), "s")


def pieces_table(found: Programs, at: int) -> Table:
    """Kernels, copies and fills compared with the previous program, largest change first."""
    before, after = found.rungs[at - 1], found.rungs[at]
    least = LEAST * max(before.time, after.time)
    large = [one for one in after.pieces if abs(one.gained) >= least or one.word in (APPEARED, GONE)][:MOST_PIECES]
    rest = [one for one in after.pieces if one not in large]
    short = short_names(one.name for one in after.pieces)
    rows = [
        [
            short[one.name],
            " -> ".join(dict.fromkeys(map(answer.many, (one.count_before, one.count_after)))),
            *(units.text(seconds, "s") if seconds else units.MISSING for seconds in (one.before, one.after)),
            _change(one.gained),
            say(f"st_{one.word}"),
        ]
        for one in large
    ]
    if rest:
        sums = [sum(one.before for one in rest), sum(one.after for one in rest)]
        times = [units.text(one, "s") for one in sums]
        rows.append([say("c_rest", count=str(len(rest))), "", *times, _change(sums[1] - sums[0]), ""])
    heads = say("st_piece"), per(found, "col_launches"), before.label, after.label, say("st_change")
    return Table([*heads, say("st_word")], rows, (0, 4, 2, 2, 0, 0)) if rows else Table([], [])
