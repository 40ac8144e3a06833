"""Whether a baseline belongs to the rows it is divided by.

A baseline of another machine, or of other shapes, makes any speed-up. Rows that profkit measured bring the time of the
reference that ran beside the candidate: where the baseline is far from it, the official numbers rest on sand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import geometric_mean
from typing import Any, TypeAlias

from profkit.contests.figures import finite, number
from profkit.contests.kernelbench.fastp import P_VALUES
from profkit.contests.kernelbench.files import Baseline, Problem, Record, Results, first_sample, own_of

LIMIT = 0.25
"""Largest difference from the row's own reference time, as a share of the smaller."""
_SHOWN = 10

Document: TypeAlias = "dict[str, Any]"


def check_baseline(results: Results, baseline: Baseline, problems: Iterable[Problem], level: int) -> Document:
    """Compare a baseline with the reference times measured beside sample 0 of each problem.

    A JSON object. `checked`: problems that have both; `disagree`: times [s] of those further apart than LIMIT.
    `fast_p_resting_on_it`: by p, how many are on the other side of p by their own reference.
    """
    checked, apart, ratios = 0, list[Document](), list[float]()
    rests = {str(p): 0 for p in P_VALUES}
    for problem in problems:
        row = first_sample(results, problem)
        own = number(own_of(row).get("reference_time"))
        mean = number(baseline.get(f"level{level}", {}).get(problem.name, {}).get("mean")) * 1e-3
        if not (own > 0 and mean > 0):
            continue
        checked += 1
        runtime = number(row.get("runtime")) * 1e-3
        timed = bool(row.get("correctness")) and runtime > 0
        ratios += [own / runtime] if timed else []
        if max(mean / own, own / mean) > 1 + LIMIT:
            named = {"problem": problem.id, "name": problem.name}
            apart.append(named | {"baseline": mean, "reference": own, "ratio": mean / own})
            for p in P_VALUES:
                rests[str(p)] += timed and (mean / runtime > p) != (own / runtime > p)
    return {
        "checked": checked,
        "limit": LIMIT,
        "disagree": apart,
        "fast_p_resting_on_it": rests,
        "own_geo_mean_speedup": finite(geometric_mean(ratios)) if ratios else None,
    }


def lines(found: Document, official: Record) -> list[str]:
    """What of the official document rests on a baseline that the rows contradict."""
    worst = sorted(found["disagree"], key=lambda one: abs(math.log(one["ratio"])), reverse=True)
    if not worst:
        return []
    said = [
        f"The baseline disagrees: {len(worst)} of {found['checked']} problems are more than {LIMIT:.0%} from the"
        " reference that was timed beside the candidate (another machine, other shapes?):"
    ]
    said += [
        f"  {one['name']}: baseline {one['baseline'] * 1e3:.3g} ms, reference here {one['reference'] * 1e3:.3g} ms"
        f" ({one['ratio']:.3g}x)"
        for one in worst[:_SHOWN]
    ]
    said += [f"  and {len(worst) - _SHOWN} more: --json has all"] if len(worst) > _SHOWN else []
    rests = [
        f"fast_{p} = {official['fast_p'][p]:.3g} ({n} problems)" for p, n in found["fast_p_resting_on_it"].items() if n
    ]
    mean = f"geometric mean {official['geo_mean_speedup']:.4g}"
    said.append(f"These rest on it and mean nothing here: {', '.join([mean, *rests])}")
    if found["own_geo_mean_speedup"] is not None:
        own = found["own_geo_mean_speedup"]
        said.append(f"Over the references timed beside them the geometric mean is {own:.4g}")
    return said
