"""Whether a baseline belongs to the rows it is divided by.

Rows that profkit measured bring the time of the reference beside the candidate. A baseline far from it is of another
machine or of other shapes, and makes any speed-up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

from profkit.contests.figures import number
from profkit.contests.kernelbench.files import Baseline, Problem, Results, first_sample, own_of

LIMIT = 0.25
"""Largest difference from the row's own reference time, as a share of the smaller."""
_SHOWN = 10

Document: TypeAlias = "dict[str, Any]"


def check_baseline(results: Results, baseline: Baseline, problems: Iterable[Problem], level: int) -> Document:
    """Compare a baseline with the reference times [s] measured beside sample 0 of each problem."""
    checked, apart = 0, list[Document]()
    for problem in problems:
        own = number(own_of(first_sample(results, problem)).get("reference_time"))
        mean = number(baseline.get(f"level{level}", {}).get(problem.name, {}).get("mean")) * 1e-3
        if not (own > 0 and mean > 0):
            continue
        checked += 1
        if max(mean / own, own / mean) > 1 + LIMIT:
            named = {"problem": problem.id, "name": problem.name}
            apart.append(named | {"baseline": mean, "reference": own, "ratio": mean / own})
    return {"checked": checked, "limit": LIMIT, "disagree": apart}


def lines(found: Document) -> list[str]:
    """Problems with a baseline that their rows contradict, the furthest apart first."""
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
    return [*said, "Speed-ups over this baseline mean nothing here."]
