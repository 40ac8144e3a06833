"""Runs as steps of a ladder: their table, and the roofline with an arrow a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzers.compare import Ladder, Moved, Rung, Step, compare
from analyzers.verdicts.speedup import shown
from profkit.errors import ProfkitError
from profkit.report.layout import Column, Table, terminal_table
from profkit.report.messages import named, say
from profkit.report.sections import caveats
from roofline import units

if TYPE_CHECKING:
    from analyzers.verdicts.statistics import Ratio
    from profkit.rundir.manifest import Manifest
    from profkit.study.study import Study


@dataclass(frozen=True)
class Chosen:
    """An implementation of a run, named as `RUN` or `RUN:impl` on the command line."""

    study: Study
    impl: str

    @property
    def row(self) -> dict[str, Any]:
        return self.study.analysis.impl(self.impl)


def choose(names: Sequence[str | Study]) -> list[Chosen]:
    """Runs and implementations named on the command line, or open; each run is read once."""
    return [chosen_of(*one) for one in named_runs(names)]


def named_runs(names: Sequence[str | Study]) -> list[tuple[Study, str]]:
    """(run, implementation or "") of each word; words of one run share it."""
    opened: dict[Path, Study] = {}
    return [_named(one, opened) if isinstance(one, str) else (one, "") for one in names]


def _named(name: str, opened: dict[Path, Study]) -> tuple[Study, str]:
    """Split RUN:IMPL at the last colon behind an existing path."""
    from profkit.study.study import open_study  # pandas stays out of start-up

    ends = [at for at in range(len(name), 0, -1) if at == len(name) or name[at] == ":"]
    end = next((at for at in ends if Path(name[:at]).exists()), ends[-1])
    found = open_study(name[:end])
    return opened.setdefault(found.path.resolve(), found), name[end + 1 :]


def chosen_of(study: Study, impl: str = "") -> Chosen:
    """An implementation of a run, by default its fastest correct candidate. Raises ProfkitError."""
    rows = {name: row for name, row in study.analysis.rows.items() if row["time"] > 0}
    if impl and impl not in rows:
        raise ProfkitError(f"{study.path}: no time of {impl!r}", fix=f"timed here: {', '.join(rows) or 'nothing'}")
    if not impl:
        sound = [one.name for one in study.manifest.candidates if one.ok and one.name in rows]
        names = sound or list(rows)
        if not names:
            raise ProfkitError(f"{study.path}: nothing was timed", fix="measure the sample again")
        impl = min(names, key=lambda one: float(rows[one]["time"]))
    return Chosen(study, impl)


def ladder_of(chosen: Sequence[Chosen]) -> Ladder:
    """The comparison of these implementations, in order."""
    names = told_apart([one.study for one in chosen], [one.impl for one in chosen])
    return compare([step_of(one, name) for one, name in zip(chosen, names, strict=True)])


def told_apart(studies: Sequence[Study], short: Sequence[str]) -> list[str]:
    """The shortest labels that tell them apart: each name, else with its run."""
    if len(set(short)) == len(short):
        return list(short)
    stamps = [f"{name} @ {study.path.name}" for name, study in zip(short, studies, strict=True)]
    return stamps if len(set(stamps)) == len(stamps) else [f"{n}. {name}" for n, name in enumerate(short, 1)]


def machine(manifest: Manifest) -> dict[str, Any]:
    """Facts that two runs must share for their times to be compared."""
    return {
        "device": manifest.device.get("name"),
        "uuid": manifest.device.get("uuid"),
        "driver": manifest.device.get("driver"),
        "torch": manifest.versions.get("torch"),
        "cuda": manifest.versions.get("cuda"),
    }


def step_of(chosen: Chosen, label: str) -> Step:
    """One implementation as analyzers.compare wants it."""
    study, manifest = chosen.study, chosen.study.manifest
    row = chosen.row
    kernels = study.kernels
    mine = kernels[kernels["impl"] == chosen.impl].to_dict("records") if len(kernels) else []
    # Facts of one kernel (registers, occupancy) are compared only where there is one: the longest.
    kernel = {str(key): value for key, value in mine[0].items()} if mine else {}
    impl = next((one for one in manifest.impls if one.name == chosen.impl), None)
    own = [ref for ref in manifest.sample.files.values() if impl is not None and ref.path == impl.file]
    files = {ref.path: ref.sha256 for ref in own}
    reference, timings = manifest.sample.files.get("reference"), study.timings
    timed = timings is not None and "sm_clock" in timings
    clock = timings.loc[timings["impl"] == chosen.impl, "sm_clock"] if timings is not None and timed else None
    facts = {
        **machine(manifest),
        "sample": manifest.sample.id,
        "method": row.get("method"),
        "l2": row.get("l2"),
        "sm_clock": math.nan if clock is None else float(clock.median()),
        "clock_control": manifest.counters.clock_control if manifest.counters.state == "collected" else "",
        "reference": reference.sha256[:12] if reference else "",
    }
    return Step(label, chosen.impl, row, kernel, facts, files)


def ladder_table(ladder: Ladder, correct: Sequence[str] = (), near: Sequence[str] = ()) -> Table:
    """One row a step, one unit for the times; cells on answers and on the nearest ceilings."""
    rungs = ladder.rungs
    first, *others = [", ".join(rung.changed) for rung in rungs]
    unit, times = units.column([rung.time for rung in rungs], "s")
    return Table.of(
        [
            Column(say("step"), [rung.label for rung in rungs]),
            Column(say("measure"), [first or units.MISSING, *(one or say("c_same_file") for one in others)], 5),
            Column(say("correct"), correct or [units.MISSING] * len(rungs), 5),
            Column(f"{say('time')} [{unit}]", times),
            Column(say("c_step"), [ratio_text(rung.step, rung) for rung in rungs]),
            Column(say("since"), [shown(rung.total, "ratio") for rung in rungs], 3),
            Column(say("js_frac"), near, 4)
            if near
            else Column(say("attainable"), [units.percent(rung.attainable_fraction) for rung in rungs], 4),
            Column(say("x_lower_bound"), [units.digits(rung.lower_bound_ratio) for rung in rungs], 4),
            Column(say("bound_by"), [named(rung.bound_by) or units.MISSING for rung in rungs], 2),
        ]
    )


def ratio_text(value: float, one: Rung | Ratio) -> str:
    """ "1.35x [1.3, 1.41] faster"; a dash where nothing is compared."""
    if math.isnan(value):
        return units.MISSING
    inside = f" {interval(one)}" if units.digits(one.low) != units.digits(one.high) else ""
    return f"{shown(value, 'ratio')}{inside} {say(f'c_{one.verdict}')}"


def interval(one: Rung | Ratio) -> str:
    """ "[1.3, 1.41]"."""
    return f"[{units.digits(one.low)}, {units.digits(one.high)}]"


COLOURS = {"faster": "green", "slower": "red", "inconclusive": "yellow"}
_UNITS = dict.fromkeys(("bytes", "dram_bytes", "l2_bytes", "l1_bytes", "shared_memory"), "B") | {"flops": "FLOP"}


def moved(one: Moved) -> str:
    """ "dram_bytes 2.58 GB -> 268 MB"."""
    name, unit = named(one.name), _UNITS.get(one.name, "")
    if unit:
        return f"{name} {units.text(one.before, unit)} -> {units.text(one.after, unit)}"
    share = one.name.endswith(("_fraction", "_share", "occupancy", "issue_active"))
    show = units.percent if share else units.count
    return f"{name} {show(one.before)} -> {show(one.after)}"


def text(ladder: Ladder) -> str:
    """For the terminal: the steps, the counters that moved, the convention and the caveats."""
    moves = [f"  {rung.label}: {'; '.join(map(moved, rung.moved))}" for rung in ladder.rungs if rung.moved]
    table = terminal_table(ladder_table(ladder), tones=[COLOURS.get(rung.verdict) for rung in ladder.rungs])
    parts = [table, *([f"{say('moved')}:", *moves] if moves else []), say("c_note")]
    return "\n".join([*parts, *(say("c_caveat") + caveats.Said.of(one).with_fix() for one in ladder.caveats)])
