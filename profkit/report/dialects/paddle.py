"""--for paddle: the before/after table of a pull request, in one unit, its convention named."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzers.verdicts.speedup import FORMULAS, shown, speedup
from profkit.errors import ProfkitError
from profkit.report.dialect import Dialect, Written
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
RESULT, CONVENTION = "faster than the original one", "gain"


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
    """The table of pairs of runs."""
    return Written(report(cases_of(choose(runs))))


def report(cases: Sequence[Case]) -> str:
    """The table and its convention."""
    with_torch = any(not math.isnan(case.pytorch) for case in cases)
    head = [*HEAD, RESULT] + (["PyTorch Perf(ms)", "diff with PyTorch"] if with_torch else [])
    places = _places(cases)
    gap = say("fill_in")
    rows = [_row(number, case, places, with_torch, gap) for number, case in enumerate(cases, 1)]
    colon, comma = say("colon"), say("comma")
    formula = translated(FORMULAS[CONVENTION])
    lines = [pipe_table(Table(head, rows)), "", f"{RESULT}{colon}{formula}{comma}{say('in_ms')}"]
    if with_torch:
        lines.append(f"diff with PyTorch{colon}{formula}{comma}{say('old_is_torch')}")
    return "\n".join(lines) + "\n"


def _row(number: int, case: Case, places: int, with_torch: bool, gap: str) -> list[str]:
    cells = [
        str(number),
        case.device or gap,
        case.input_type or gap,
        case.input_shape or gap,
        _ms(case.before, places),
        _ms(case.after, places),
        shown(speedup(case.before, case.after, CONVENTION), CONVENTION),
    ]
    if with_torch:
        cells += [_ms(case.pytorch, places), shown(speedup(case.pytorch, case.after, CONVENTION), CONVENTION)]
    return cells


def _places(cases: Sequence[Case]) -> int:
    """Decimals that give the smallest time four significant digits."""
    times = [t for case in cases for t in (case.before, case.after, case.pytorch) if t > 0]
    return min(7, max(3, 3 - math.floor(math.log10(min(times) * 1e3)))) if times else 3


def _ms(seconds: float, places: int) -> str:
    return "-" if math.isnan(seconds) else f"{seconds * 1e3:.{places}f}"


def cases_of(chosen: Sequence[Chosen]) -> list[Case]:
    """Cases from pairs of runs BEFORE AFTER ..., one for each shape and layout that both timed."""
    if len(chosen) < 2 or len(chosen) % 2:
        raise ProfkitError(f"{len(chosen)} runs: --for paddle takes pairs", fix="name BEFORE AFTER [BEFORE AFTER]...")
    pairs = zip(chosen[::2], chosen[1::2], strict=True)
    return [case for before, after in pairs for case in (_case(before, after), *_more(before, after))]


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


def _case(before: Chosen, after: Chosen) -> Case:
    analysis = after.study.analysis
    old, new = before.study.analysis.impl(before.impl), analysis.impl(after.impl)
    judged = analysis.reference in (before.impl, after.impl) or analysis.reference not in analysis.rows
    torch = math.nan if judged else float(analysis.rows[analysis.reference]["time"])
    return Case(
        str(after.study.manifest.device.get("name", "")),
        *_recorded(after.study.manifest.inputs),
        float(old["time"]),
        float(new["time"]),
        torch,
    )


DIALECT = Dialect("paddle", write, markdown=True)
