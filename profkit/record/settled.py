"""Whether one process of each implementation is enough, or two: fewer starts, and an answer sooner.

One process cannot tell how far another lies from it. It is not left out: `SPREAD` goes into the interval, and the
verdict has to stand with it. So nothing is called the same after one process, and what is near the threshold, has a wide
interval or was timed beside other work gets a second. Two tell what their own interval tells; then all of them are asked.

Simulated with processes that differ by a standard deviation of 0.2 to 2 %, rounds by 0.6 %, and speed-ups of 1 to 2, 200
times each: one process was enough for none at 1 (in 2 % of the cases at 2 %), for all from 1.1 on; no verdict was another
than that of three processes, and the intervals missed in 0 to 8.5 % of the cases, those of three processes always in 2.5 to
10 %. Where processes differ by more than SPREAD says, so do the intervals miss. With the look at two, verdicts are wrong
and intervals miss no more often than without.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd

from analyzers.errors import AnalyzeError
from analyzers.verdicts import timing
from analyzers.verdicts.statistics import Ratio

SPREAD = {"cuda": 0.04, "cpu": 0.1}
"""Relative half-width by which the speed-up of another process is taken to differ. Of ten candidates of CUDA-L1, each timed in
three processes of an H200, it would have held for seven; the others (a call of 5 us, and two that differed by 6 and by 24 %)
were faster or slower by more than that.
"""
TARGET = 0.01
"""Relative half-width of the medians to which they time where one may be enough, unless another was asked for."""


def settled(table: Sequence[Sequence[str]], reference: str, names: Collection[str], device: str) -> bool:
    """Whether the verdict of all of these is known.

    table: timings.csv of the process, its header first. False where there are none, something was not timed, or two clocks
    disagree.
    """
    if not (table and names):
        return False
    try:
        samples = timing.check(frame(table))
        chosen = timing.choose(samples)
        found = timing.speedups(chosen, reference, spread=SPREAD[device])
    except (AnalyzeError, ValueError):
        return False
    mine = {name: found[name] for name in names if name in found}
    known = len(mine) == len(names) and all(_known(one, SPREAD[device]) for one in mine.values())
    return known and not timing.two_clocks(samples, chosen, mine, reference)


def _known(found: Ratio, spread: float) -> bool:
    """Whether a verdict stands, with no more left open by the process than SPREAD."""
    return found.verdict != "inconclusive" and found.within <= spread


def frame(table: Sequence[Sequence[str]]) -> pd.DataFrame:
    """Rows of a file of samples, its header first."""
    found: pd.DataFrame = pd.DataFrame([list(row) for row in table[1:]], columns=list(table[0]))
    return found
