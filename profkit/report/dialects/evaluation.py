"""TensorRT write-up tables: the hackathon's evaluation output, and times by input."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from analyzers.verdicts.speedup import FORMULAS, shown, speedup
from profkit.contests.hackathon.encoder_table import Part, passes
from profkit.report import units
from profkit.report.layout import Table, pipe_table
from profkit.report.messages import say, translated

if TYPE_CHECKING:
    from profkit.study.study import Study

Evaluations = Sequence[tuple[str, Sequence[Part]]]
"""(name, parts) of each evaluation, the baseline first."""


def errors(evaluations: Evaluations) -> list[list[str]]:
    """Part, bs, sl, errors as printed, and the verdict with its thresholds where they differ."""
    return [row for name, parts in evaluations for part in parts for row in _errors(name, part)]


def _errors(name: str, part: Part) -> Iterator[list[str]]:
    for row in ordered(part):
        cells = [row.cells.get(key, "-") for key in ("bs", "sl", "a0", "r0", "a1", "r1")]
        if any(cell != "-" for cell in cells[2:]):
            wanted = passes(part, row)
            verdict = row.verdict or "-"
            yield [
                f"{name} {part.name}".strip(),
                *cells,
                verdict if wanted in ("", row.verdict) else say("thresholds_say", verdict=verdict, wanted=wanted),
            ]


def ordered(part: Part) -> list[Any]:
    """Rows by batch and length: the script sorts its files as text."""
    return sorted(
        part.rows,
        key=lambda row: (row.number("bs"), row.number("sl") if row.number("sl") == row.number("sl") else 0),
    )


def _key(row: Any) -> tuple[str, str]:
    return row.cells.get("bs", ""), row.cells.get("sl", "")


def matrix(evaluations: Evaluations) -> Iterator[str]:
    """Latency and speed-up by batch and length; the first table is the baseline."""
    (base_name, base_parts), *others = evaluations
    if others:
        yield say("convention", formula=translated(FORMULAS["ratio"]), base=say("base_latency")) + "\n"
    for part in base_parts:
        after = [
            (name, {_key(row): row for row in one.rows})
            for name, parts in others
            for one in parts
            if one.name == part.name
        ]
        head = ["bs", "sl", f"{base_name} lt [ms]"]
        for name, _ in after:
            head += [f"{name} lt [ms]", say("gain", formula=translated(FORMULAS["ratio"]))]
        rows = [_cells(row, [known for _, known in after]) for row in ordered(part)]
        yield f"{part.name}\n\n" + pipe_table(Table(head, rows)) + "\n"


def _cells(row: Any, after: Sequence[dict[tuple[str, str], Any]]) -> list[str]:
    cells = [row.cells.get("bs", "-"), row.cells.get("sl", "-"), row.cells.get("lt", "-")]
    for known in after:
        other = known.get(_key(row))
        gain = shown(speedup(row.number("lt"), other.number("lt")), "ratio") if other else "-"
        cells += [other.cells.get("lt", "-") if other else "-", gain]
    return cells


def by_input(studies: Sequence[Study], steps: Sequence[str]) -> str:
    """One row a run: its inputs, the first step's time, the other steps' with their speed-ups."""
    known = [{str(row["impl"]): float(row["time"]) for row in study.metrics.to_dict("records")} for study in studies]
    scale, unit = units.scale("s", [time for times in known for time in times.values()])
    rows = [_row(study, times, steps, scale) for study, times in zip(studies, known, strict=True)]
    head = [say("p_inputs"), *(f"{step} [{unit}]" for step in steps)]
    note = say("convention", formula=translated(FORMULAS["ratio"]), base=say("base_time"))
    return f"{say('by_input')}\n\n{pipe_table(Table(head, rows), (0,))}\n\n{note}"


def elements(study: Study) -> int:
    """Number of elements of a run's inputs, 0 where they are not described."""
    shapes = (re.search(r"\[([\d, ]+)\]", one) for one in study.manifest.inputs)
    return sum(math.prod(int(size) for size in found[1].split(",")) for found in shapes if found is not None)


def _row(study: Study, times: dict[str, float], steps: Sequence[str], scale: float) -> list[str]:
    first = times.get(steps[0], math.nan)
    cells = [", ".join(study.manifest.inputs) or study.path.name, units.digits(first / scale)]
    for step in steps[1:]:
        time = times.get(step, math.nan)
        cells.append(f"{units.digits(time / scale)} ({shown(speedup(first, time), 'ratio')})")
    return cells
