"""Compare runs: implementations as an optimisation ladder, programs by their steady step."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import pandas as pd

from analyzers.compare import NOT_COMPARABLE, Ladder, Step, compare
from analyzers.timeline.compare import FEWEST, SERIAL, Programs, Rung, compare_steps
from analyzers.verdicts.verdict import PACED
from profkit.errors import ProfkitError
from profkit.report.layout import terminal_table
from profkit.report.messages import say, speaking
from profkit.report.sections import answer, caveats
from profkit.report.sections.caveats import Said
from profkit.report.sections.comparison import (
    ladder_table,
    moved,
    of_ladder,
    of_programs,
    pieces_table,
    sides_table,
    slices_table,
)
from profkit.report.writers.terminal import tone
from profkit.rundir.manifest import Manifest
from profkit.study.study import Study, open_study
from profkit.study.verdicts import loaded
from roofline import units


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
    def caveats(self) -> list[Said]:
        """Caveats of the comparison, caveats common to all runs, then each run's other ones."""
        steps = [(one.study, one.impl) for one in self.chosen] or [(study, "") for study in self.studies]
        own, labels = [caveats.concerning(*step) for step in steps], [rung.label for rung in self.ladder.rungs]
        shared = [one for one in own[0] if all(one in mine for mine in own)]
        told = [*map(caveats.Said.of, self.ladder.caveats), *shared] + [
            replace(one, what=label + say("colon") + one.what.removeprefix(impl + say("colon")))
            for label, (_, impl), mine in zip(labels, steps, own, strict=True)
            for one in mine
            if one not in shared
        ]
        # Load that cannot explain the verdict asks for no other measurement.
        settled = self.ladder.rungs[-1].since.verdict in PACED
        return [replace(one, fix="") if settled and one.code == "busy" else one for one in told]

    @property
    def title(self) -> str:
        """The task, if it is one, and the steps."""
        names = list(dict.fromkeys(answer.task(one) or one.manifest.sample.id for one in self.studies))
        return say("colon").join([*names[: len(names) == 1], " → ".join(rung.label for rung in self.ladder.rungs)])

    @property
    def subtitle(self) -> str:
        """What was measured, on which device, with which inputs, and when."""
        made = dict.fromkeys(
            (say("comma").join([answer.title(one), *one.manifest.inputs]), one.manifest.created) for one in self.studies
        )
        whats = {what: " → ".join(when for other, when in made if other == what) for what, _ in made}
        return say("semicolon").join(map(say("comma").join, whats.items()))

    @property
    def weighty(self) -> list[Said]:
        """The caveat that weighs most, unless the verdict says it."""
        return [one for one in caveats.weightiest(self.caveats) if one.code not in caveats.APART][:1]

    def lines(self) -> list[str]:
        """The verdict, what changed with it, and the caveat that weighs most."""
        found = self.ladder
        verdict, changes = of_ladder(found, self.chosen) if isinstance(found, Ladder) else of_programs(found)
        lines = [say("c_with", what=say("semicolon").join(changes))] if changes else []
        if found.rungs[-1].since.verdict == NOT_COMPARABLE:
            lines = [one.line() for one in self.caveats if one.code in caveats.APART]
        return [verdict, *lines, *(say("c_caveat") + one.with_fix() for one in self.weighty)]

    def to_dict(self) -> dict[str, Any]:
        """The comparison for JSON, with its sentences in English."""
        with speaking("en"):
            told = {"title": self.title, "subject": self.subtitle, "lines": self.lines()}
        return {**self.ladder.to_dict(), **told}

    def text(self) -> str:
        """The comparison for the terminal: verdict, tables, what moved, convention, caveats."""
        found, tones = self.ladder, [tone(rung.verdict) for rung in self.ladder.rungs]
        blocks = [self.title, self.subtitle, *self.lines(), ""]
        if isinstance(found, Ladder):
            moves = [f"  {rung.label}: {'; '.join(map(moved, rung.moved))}" for rung in found.rungs if rung.moved]
            blocks += [terminal_table(ladder_table(found, self.chosen), tones=tones)]
            blocks += [f"{say('moved')}:", *moves] if moves else []
        else:
            more = [slices_table(found), *(pieces_table(found, at) for at in range(1, len(found.rungs)))]
            blocks += [terminal_table(sides_table(found), tones=tones)]
            blocks += [terminal_table(one) for one in more if one.rows]
        note = say("c_note" if isinstance(found, Ladder) else "st_note")
        return "\n".join(
            [*blocks, note, *(say("c_caveat") + one.with_fix() for one in self.caveats if one not in self.weighty)]
        )

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
    files, names = [[make(one) for one in studies] for make in (answer.exported, lambda one: one.manifest.sample.id)]
    labels = told_apart(studies, files if all(files) and len(set(files)) == len(files) else names)
    return Compared(studies, compare_steps([_taken(*one) for one in zip(studies, labels, strict=True)]))


def ladder_of(chosen: Sequence[Chosen]) -> Ladder:
    """The comparison of these implementations, in order."""
    names = told_apart([one.study for one in chosen], [one.impl or one.study.manifest.sample.id for one in chosen])
    return compare([_step(one, name) for one, name in zip(chosen, names, strict=True)])


def _machine(manifest: Manifest) -> dict[str, Any]:
    """Facts that two runs must share for their times to be compared."""
    of_device = {name: manifest.device.get(name) for name in ("name", "uuid", "driver")}
    versions = {name: manifest.versions.get(name) for name in ("torch", "cuda")}
    return {"device": of_device.pop("name"), **of_device, **versions, "program": shlex.join(manifest.program)}


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
        "sample": manifest.sample.id if manifest.impls else "",
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
    return Rung(label, budget, steps, device, len(study.budgets), within, facts, answer.slowed(study))
