"""Which kernels are hot, and the smallest stretch of the program in which ncu meets all of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analyzers.program import COMMUNICATION
from analyzers.provenance import base_name
from collectors.doubt import Doubt

EACH = 3
"""Launches wanted of every hot kernel: enough to see whether they differ."""
ROOM = 6
"""Launches a hot kernel may cost; where `EACH` of all lie further apart, fewer of each are taken."""


@dataclass(frozen=True)
class Hot:
    """What ncu has to capture: `kernels` (full names, hottest first) with their `shares` of the kernel time,
    `pattern` for -k, and the launches matching it to skip and to take.
    """

    kernels: tuple[str, ...]
    shares: tuple[float, ...]
    pattern: str
    skip: int
    count: int


def hottest(frame: pd.DataFrame, number: int) -> Hot:
    """The `number` kernels with the longest summed time of a launches frame in order of launch; NCCL's cannot be counted.

    -k of ncu takes the function's base name, so other instances of a hot template match too; the stretch is
    chosen by full names, soon after the first of each (the program can end when it is captured).
    """
    kernels = frame[(frame["kind"] == "kernel") & ~frame["kernel"].str.contains(COMMUNICATION)]
    if "start" in kernels:
        kernels = kernels.sort_values("start", kind="stable")
    sums = kernels.groupby("kernel", sort=False)["time"].sum().sort_values(ascending=False, kind="stable")
    names = [str(name) for name in sums.index[:number]]
    bases = list(dict.fromkeys(base_name(name) for name in names))
    wanted = {name: base_name(name) for name in dict.fromkeys(kernels["kernel"])}
    matching = [name for name in kernels["kernel"] if wanted[name] in bases]
    first, end = sample(matching, names)
    total = float(sums.sum())
    return Hot(
        tuple(names),
        tuple(float(sums[name]) / total for name in names),
        f"regex:^({'|'.join(re.escape(base) for base in bases)})$",
        first,
        end - first,
    )


def sample(launches: Sequence[str], wanted: Sequence[str]) -> tuple[int, int]:
    """The stretch to capture: behind the first launch of each kernel, which is warm-up, where that leaves enough.

    EACH launches of all `wanted`, or fewer where those take more than ROOM launches a kernel.
    """
    warm = max((launches.index(name) for name in wanted if name in launches), default=-1) + 1
    there, later = Counter(launches), Counter(launches[warm:])
    begin = warm if all(later[name] >= min(EACH, there[name]) for name in wanted) else 0
    for each in range(EACH, 0, -1):
        first, end = stretch(launches[begin:], wanted, each)
        if end - first <= ROOM * len(wanted):
            break
    return begin + first, begin + end


def stretch(launches: Sequence[str], wanted: Sequence[str], each: int = EACH) -> tuple[int, int]:
    """The shortest [first, end) of `launches` with `each` of all `wanted` (or all there are); the first of equals."""
    there = Counter(launches)
    missing = {name: min(each, there[name]) for name in wanted}
    lacking = sum(count > 0 for count in missing.values())
    best, first = (0, len(launches)), 0
    for end, name in enumerate(launches, 1):
        if name in missing:
            missing[name] -= 1
            lacking -= missing[name] == 0
        while lacking == 0:
            if end - first < best[1] - best[0]:
                best = (first, end)
            left = launches[first]
            if left in missing:
                missing[left] += 1
                lacking += missing[left] == 1
            first += 1
    return best


def not_met(hot: Hot, frame: pd.DataFrame) -> list[Doubt]:
    """A doubt for each hot kernel that ncu did not capture."""
    there = {base_name(str(name)) for name in frame["kernel"].unique()}
    return [
        Doubt(
            f"hot kernel not captured by ncu: {name[:80]}",
            f"{share:.0%} of the kernel time",
            "the program does not launch the same kernels every time; capture all with --ncu",
        )
        for name, share in zip(hot.kernels, hot.shares, strict=True)
        if base_name(name) not in there
    ]
