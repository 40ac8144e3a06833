"""--for paddle: the before/after table of a pull request, in one unit, its convention named."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from analyzers.speedup import FORMULAS, shown, speedup
from profkit.contests.hackathon.slips import check_claims, claims_of
from profkit.errors import ProfkitError
from profkit.report.dialect import FILE, Dialect, Written
from profkit.report.ladder import Chosen, choose
from profkit.report.layout import Table, pipe_table
from profkit.report.messages import say, translated

if TYPE_CHECKING:
    from profkit.study.study import Study

HEAD = (
    "Case No.",
    "device",
    "input_type",
    "input_shape",
    "original Paddle Perf(ms)",
    "current Paddle Perf(ms)",
)
RESULT = {
    "gain": "faster than the original one",
    "ratio": "speedup",
    "saved": "diff with origin Paddle",
    "percent": "Perf_over_percent(%)",
}
_STRIDES = re.compile(r" strides \[[^\]]*\]")


@dataclass(frozen=True)
class Case:
    """One benchmark case: times in seconds; bytes: what a call must move at least, peak: the device's B/s."""

    device: str
    input_type: str
    input_shape: str
    before: float
    after: float
    pytorch: float = math.nan
    bytes: float = math.nan
    peak: float = math.nan


def write(
    runs: Sequence[str | Study],
    inputs: Sequence[str] = (),
    convention: str = "gain",
    lint: Path | None = None,
) -> Written:
    """The table of pairs of runs, or what is wrong with the table that stands in a file."""
    if lint is not None:
        return Written(slips(lint))
    return Written(report(cases_of(choose(runs), inputs), convention))


def slips(path: Path) -> str:
    """What is wrong with the arithmetic of a before/after table that stands in a Markdown file."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProfkitError(f"{path}: {error}", fix="give a Markdown file with a before/after table") from error
    claims = claims_of(text)
    convention, found = check_claims(claims)
    lines = [f"{len(claims)} figures, convention {convention} ({FORMULAS[convention]}), {len(found)} slips"]
    lines += [f"- {slip.where}: printed {slip.printed}, {slip.recomputed} by the columns: {slip.why}" for slip in found]
    return "\n".join(lines) + "\n"


def report(cases: Sequence[Case], convention: str = "gain") -> str:
    """The table, its convention, and a line for each case that is faster than its device can be."""
    with_torch = any(not math.isnan(case.pytorch) for case in cases)
    head = [*HEAD, RESULT[convention]] + (["PyTorch Perf(ms)", "diff with PyTorch"] if with_torch else [])
    places = _places(cases)
    gap = say("fill_in")
    rows = [_row(number, case, convention, places, with_torch, gap) for number, case in enumerate(cases, 1)]
    colon, comma = say("colon"), say("comma")
    formula = translated(FORMULAS[convention])
    lines = [pipe_table(Table(head, rows)), "", f"{RESULT[convention]}{colon}{formula}{comma}{say('in_ms')}"]
    if with_torch:
        lines.append(f"diff with PyTorch{colon}{formula}{comma}{say('old_is_torch')}")
    return "\n".join([*lines, *_layouts(cases), *_implausible(cases)]) + "\n"


def _row(number: int, case: Case, convention: str, places: int, with_torch: bool, gap: str) -> list[str]:
    cells = [
        str(number),
        case.device or gap,
        case.input_type or gap,
        case.input_shape or gap,
        _ms(case.before, places),
        _ms(case.after, places),
        shown(speedup(case.before, case.after, convention), convention),
    ]
    if with_torch:
        cells += [_ms(case.pytorch, places), shown(speedup(case.pytorch, case.after, convention), convention)]
    return cells


def _places(cases: Sequence[Case]) -> int:
    """Decimals that give the smallest time four significant digits; one unit and one format a column."""
    times = [t for case in cases for t in (case.before, case.after, case.pytorch) if t > 0]
    return min(7, max(3, 3 - math.floor(math.log10(min(times) * 1e3)))) if times else 3


def _ms(seconds: float, places: int) -> str:
    return "-" if math.isnan(seconds) else f"{seconds * 1e3:.{places}f}"


def _layouts(cases: Sequence[Case]) -> list[str]:
    """A line for each case whose inputs are those of another one but for their strides."""
    dense = {(case.device, case.input_type, case.input_shape): n for n, case in enumerate(cases, 1)}
    lines = []
    for number, case in enumerate(cases, 1):
        other = dense.get((case.device, case.input_type, _STRIDES.sub("", case.input_shape)), number)
        if other != number:
            base = cases[other - 1]
            times = {"before": case.before / base.before, "after": case.after / base.after}
            known = {name: f"{value:.3g}" for name, value in times.items()}
            lines.append(say("layouts", strided=str(number), dense=str(other), **known))
    return lines


def _implausible(cases: Sequence[Case]) -> list[str]:
    lines = []
    for number, case in enumerate(cases, 1):
        rate = case.bytes / case.after
        if rate > case.peak:
            lines.append(
                say(
                    "implausible",
                    number=str(number),
                    size=f"{case.bytes / 1e9:.3g}",
                    ms=f"{case.after * 1e3:.4g}",
                    rate=f"{rate / 1e12:.3g}",
                    peak=f"{case.peak / 1e12:.3g}",
                )
            )
    return lines


def cases_of(chosen: Sequence[Chosen], inputs: Sequence[str] = ()) -> list[Case]:
    """Cases from pairs of runs, BEFORE AFTER BEFORE AFTER ..., one for each shape and layout that both timed; `inputs`:
    "float32 [16,1024]" for each pair, in the place of what the run recorded.

    The reference of a pair is PyTorch's time. What the runs do not know is left as a gap.
    """
    if len(chosen) < 2 or len(chosen) % 2:
        raise ProfkitError(f"{len(chosen)} runs: --for paddle takes pairs", fix="name BEFORE AFTER [BEFORE AFTER]...")
    cases = []
    for index in range(0, len(chosen), 2):
        before, after = chosen[index], chosen[index + 1]
        if index // 2 < len(inputs):
            kind, _, shape = inputs[index // 2].partition(" ")
            cases.append(_case(before, after, kind, shape))
        else:
            cases += [_case(before, after, *_recorded(after.study.manifest.inputs)), *_more(before, after)]
    return cases


def _more(before: Chosen, after: Chosen) -> Iterator[Case]:
    """A case for each further set of inputs (get_more_inputs) that both runs timed."""
    known = {one.inputs: one.times for one in before.study.shapes[1:]}
    reference = after.study.analysis.reference
    for one in after.study.shapes[1:]:
        old = known.get(one.inputs, {})
        if before.impl in old and after.impl in one.times:
            torch = math.nan if reference in (before.impl, after.impl) else one.times.get(reference, math.nan)
            device = str(after.study.manifest.device.get("name", ""))
            yield Case(device, *_recorded(one.inputs), old[before.impl], one.times[after.impl], torch)


def _recorded(inputs: Sequence[str]) -> tuple[str, str]:
    """Type and shape of the inputs as the run has them: a shape an input, each type once."""
    parts = [one.partition(" ")[::2] for one in inputs if "[" in one]
    return ", ".join(dict.fromkeys(kind for kind, _ in parts)), ", ".join(
        shape.replace(", ", ",") for _, shape in parts
    )


def _case(before: Chosen, after: Chosen, kind: str, shape: str) -> Case:
    old, new = before.study.analysis.impl(before.impl), after.study.analysis.impl(after.impl)
    reference = next(
        (
            float(row["time"])
            for row in after.study.analysis.impls.to_dict("records")
            if row["impl"] == after.study.analysis.reference and after.impl != row["impl"]
        ),
        math.nan,
    )
    torch = reference if before.impl != before.study.analysis.reference else math.nan
    peak = float(new["dram_bandwidth"]) / float(new["dram_fraction"]) if new["dram_fraction"] > 0 else math.nan
    return Case(
        str(after.study.manifest.device.get("name", "")),
        kind,
        shape,
        float(old["time"]),
        float(new["time"]),
        torch,
        float(new["compulsory_bytes"]),
        peak,
    )


DIALECT = Dialect(
    "paddle",
    write,
    (
        click.Option(
            ["--case", "inputs"],
            multiple=True,
            metavar="'TYPE SHAPE'",
            help="paddle: input type and shape of a pair; repeatable.",
        ),
        click.Option(
            ["--convention"],
            type=click.Choice(list(RESULT)),
            default="gain",
            show_default=True,
            help="paddle: what the speed-up means.",
        ),
        click.Option(
            ["--lint"], type=FILE, help="paddle: check the arithmetic of the table in this Markdown file instead."
        ),
    ),
    needs_runs=False,
    markdown=True,
)
