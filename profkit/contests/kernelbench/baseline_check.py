"""Whether a baseline belongs to the rows it is divided by.

A baseline of another machine, or of other shapes, makes any speed-up. Rows that profkit measured bring the time of the
reference that ran beside the candidate: where the baseline is far from it, the official numbers rest on sand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import geometric_mean
from typing import Any

from profkit.contests.figures import NAN, finite, number
from profkit.contests.kernelbench.fastp import P_VALUES
from profkit.contests.kernelbench.files import Baseline, Problem, Record, Results, own_of

LIMIT = 0.25
"""How far a baseline may be from the row's own reference time, as a share of the smaller of the two."""
_SHOWN = 10


@dataclass(frozen=True)
class Apart:
    """A problem whose baseline [s] and own reference time [s] are further apart than LIMIT."""

    problem: int
    name: str
    baseline: float
    reference: float

    @property
    def ratio(self) -> float:
        """Baseline / own reference: the factor that the speed-up is too large by."""
        return self.baseline / self.reference


@dataclass(frozen=True)
class BaselineCheck:
    """How a baseline agrees with the rows' own reference times. `checked`: problems that have both; `rests`: p ->
    problems that are on the other side of p by their own reference; `own_mean`: the geometric mean of the correct
    rows' speed-ups over their own references, NaN without any.
    """

    checked: int
    apart: tuple[Apart, ...]
    rests: dict[str, int]
    own_mean: float

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object, times in seconds."""
        return {
            "checked": self.checked,
            "limit": LIMIT,
            "disagree": [{**asdict(one), "ratio": one.ratio} for one in self.apart],
            "fast_p_resting_on_it": self.rests,
            "own_geo_mean_speedup": finite(self.own_mean),
        }


def check_baseline(results: Results, baseline: Baseline, problems: Iterable[Problem], level: int) -> BaselineCheck:
    """Compare a baseline with the times of the references that sample 0 of each problem was measured beside."""
    checked, apart, ratios = 0, list[Apart](), list[float]()
    rests = {str(p): 0 for p in P_VALUES}
    for problem in problems:
        base = baseline.get(f"level{level}", {}).get(problem.name, {})
        row = next((r for r in results.get(str(problem.id), []) if r["sample_id"] == 0), {})
        own = number(own_of(row).get("reference_time"))
        mean, runtime = number(base.get("mean")) * 1e-3, number(row.get("runtime")) * 1e-3
        if not (own > 0 and mean > 0):
            continue
        checked += 1
        timed = bool(row.get("correctness")) and runtime > 0
        ratios += [own / runtime] if timed else []
        if max(mean / own, own / mean) > 1 + LIMIT:
            apart.append(Apart(problem.id, problem.name, mean, own))
            for p in P_VALUES:
                rests[str(p)] += timed and (mean / runtime > p) != (own / runtime > p)
    own_mean = geometric_mean(ratios) if ratios else NAN
    return BaselineCheck(checked, tuple(apart), rests, own_mean)


def lines(found: BaselineCheck, official: Record) -> list[str]:
    """What of the official document rests on a baseline that the rows contradict; nothing when they agree."""
    if not found.apart:
        return []
    worst = sorted(found.apart, key=lambda one: abs(math.log(one.ratio)), reverse=True)
    said = [
        f"The baseline disagrees: {len(found.apart)} of {found.checked} problems are more than {LIMIT:.0%} from the"
        " reference that was timed beside the candidate (another machine, other shapes?):"
    ]
    said += [
        f"  {one.name}: baseline {one.baseline * 1e3:.3g} ms, reference here {one.reference * 1e3:.3g} ms"
        f" ({one.ratio:.3g}x)"
        for one in worst[:_SHOWN]
    ]
    said += [f"  and {len(worst) - _SHOWN} more: --json has all"] if len(worst) > _SHOWN else []
    rests = [f"fast_{p} = {official['fast_p'][p]:.3g} ({n} problems)" for p, n in found.rests.items() if n]
    rests.insert(0, f"geometric mean {official['geo_mean_speedup']:.4g}")
    said.append(f"These rest on it and mean nothing here: {', '.join(rests)}")
    if math.isfinite(found.own_mean):
        said.append(f"Over the references timed beside them the geometric mean is {found.own_mean:.4g}")
    return said
