"""--for paddle: before/after table of a pull request, in one unit, with its convention."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from analyzers.verdicts.speedup import FORMULAS, shown, speedup
from profkit.errors import ProfkitError
from profkit.report.compare import Chosen, choose
from profkit.report.dialects import Written
from profkit.report.layout import Column, Table, pipe_table
from profkit.report.messages import say, translated
from profkit.study.study import Study
from roofline import units

GAIN = "gain"
"""The convention of a table's percentages: old / new - 1."""


@dataclass(frozen=True)
class Case:
    """One benchmark case: times [s]."""

    device: str
    input_type: str
    input_shape: str
    before: float
    after: float
    pytorch: float = math.nan


def write(runs: Sequence[str | Study]) -> Written:
    """Write the table of pairs of runs."""
    return Written(report(cases_of(choose(runs))))


def report(cases: Sequence[Case]) -> str:
    """The table and its convention; PyTorch columns only if it was timed."""

    def times(name: str) -> list[str]:
        known = [getattr(one, name) for one in cases]
        return [units.MISSING if math.isnan(time) else f"{time * 1e3:.{places}f}" for time in known]

    def gains(name: str) -> list[str]:
        return [shown(speedup(getattr(one, name), one.after, GAIN), GAIN) for one in cases]

    known = [time for one in cases for time in (one.before, one.after, one.pytorch) if time > 0]
    # The smallest time has four significant digits.
    places = min(7, max(3, 3 - math.floor(math.log10(min(known) * 1e3)))) if known else 3
    gap = say("fill_in")
    result, against = "faster than the original one", "diff with PyTorch"
    table = Table.of(
        [
            Column("Case No.", [str(number) for number, _ in enumerate(cases, 1)]),
            Column("device", [one.device or gap for one in cases]),
            Column("input_type", [one.input_type or gap for one in cases]),
            Column("input_shape", [one.input_shape or gap for one in cases]),
            Column("original Paddle Perf(ms)", times("before")),
            Column("current Paddle Perf(ms)", times("after")),
            Column(result, gains("before")),
            Column("PyTorch Perf(ms)", times("pytorch")),
            Column(against, gains("pytorch")),
        ]
    )
    formula = say("colon") + translated(FORMULAS[GAIN]) + say("comma")
    lines = [pipe_table(table), "", f"{result}{formula}{say('in_ms')}"]
    lines += [f"{against}{formula}{say('old_is_torch')}"] if against in table.head else []
    return "\n".join(lines) + "\n"


def cases_of(chosen: Sequence[Chosen]) -> list[Case]:
    """Cases from pairs of runs BEFORE AFTER ..., one per shape and layout timed in both."""
    if len(chosen) < 2 or len(chosen) % 2:
        raise ProfkitError(f"{len(chosen)} runs: --for paddle takes pairs", fix="name BEFORE AFTER [BEFORE AFTER]...")
    pairs = zip(chosen[::2], chosen[1::2], strict=True)
    return [case for before, after in pairs for case in _cases(before, after)]


def _cases(before: Chosen, after: Chosen) -> Iterator[Case]:
    first, old = after.study.analysis.rows, {one.inputs: one.times for one in before.study.shapes[1:]}
    mine = {name: float(row["time"]) for name, row in first.items()}
    yield _case(before, after, after.study.manifest.inputs, float(before.row["time"]), mine)
    for one in after.study.shapes[1:]:
        if before.impl in (known := old.get(one.inputs, {})) and after.impl in one.times:
            yield _case(before, after, one.inputs, known[before.impl], one.times)


def _case(before: Chosen, after: Chosen, inputs: Sequence[str], old: float, times: Mapping[str, float]) -> Case:
    """Inputs of a run as a case: a shape per input, each type once."""
    parts = [one.partition(" ")[::2] for one in inputs if "[" in one]
    types = ", ".join(dict.fromkeys(kind for kind, _ in parts))
    shapes = ", ".join(shape.replace(", ", ",") for _, shape in parts)
    reference = after.study.analysis.reference
    torch = math.nan if reference in (before.impl, after.impl) else times.get(reference, math.nan)
    return Case(str(after.study.manifest.device.get("name", "")), types, shapes, old, times[after.impl], torch)
