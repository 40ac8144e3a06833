"""The hottest kernels of a program, and their launches for ncu to count."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from analyzers.kernels.spelling import base_name, plain_name, same_kernels
from analyzers.timeline.calls import COMMUNICATION
from collectors.caveat import Caveat

EACH = 3
"""Wanted launches of every hot kernel, over its most expensive shapes."""
ROOM = 4
"""Most launches per hot kernel; fewer than `EACH` are taken if needed."""
_FAR = 200
"""First launches of a shape to choose from; the program ends after the last chosen one."""


@dataclass(frozen=True)
class Hot:
    """Launches for ncu to capture.

    `kernels`: full names, hottest first; `shares`: of the kernel time; `pattern`: of their function names, as for -k;
    `invocations`: of each function, from 1; `count`: launches.
    """

    kernels: tuple[str, ...]
    shares: tuple[float, ...]
    pattern: str
    invocations: tuple[int, ...]
    count: int

    @property
    def identifier(self) -> str:
        """For ncu's --kernel-id: these invocations of each function in any context and stream."""
        return f"::{self.pattern}:^({'|'.join(map(str, self.invocations))})$"


def hottest(frame: pd.DataFrame, number: int) -> Hot:
    """The `number` kernels with the longest summed time in a launches frame, without NCCL's.

    ncu matches base names, so a chosen invocation also counts other instances of a hot template. Invocations are chosen
    to hit as few of those as possible.
    """
    kernels = frame[(frame["kind"] == "kernel") & ~frame["kernel"].str.contains(COMMUNICATION)]
    if "start" in kernels:
        kernels = kernels.sort_values("start", kind="stable")
    sums = kernels.groupby("kernel", sort=False, observed=True)["time"].sum()
    sums = sums.sort_values(ascending=False, kind="stable")
    names = [str(name) for name in sums.index[:number]]
    bases = list(dict.fromkeys(base_name(name) for name in names))
    launches = _launches(kernels, bases)
    for each in range(EACH, 0, -1):
        invocations, count = chosen(launches, _wanted(launches, names, each))
        if count <= ROOM * len(names):
            break
    shares = tuple(float(sums[name] / sums.sum()) for name in names)
    pattern = f"regex:^({'|'.join(re.escape(base) for base in bases)})$"
    return Hot(tuple(names), shares, pattern, invocations, count)


def _launches(kernels: pd.DataFrame, bases: Iterable[str]) -> pd.DataFrame:
    """`kernel`, `time`, `shape` (kernel, grid and block as a number) and `at` of their launches.

    at: the invocation number of its function, from 1, by process.
    """
    base = kernels["kernel"].map({name: base_name(name) for name in kernels["kernel"].unique()}).astype("str")
    found = kernels.assign(base=base)[base.isin(list(bases))]
    shape, function = (
        found.groupby([one for one in names if one in found], sort=False, observed=True, dropna=False)
        for names in (("kernel", "grid", "block"), ("base", "process"))
    )
    launches: pd.DataFrame = found.assign(shape=shape.ngroup(), at=function.cumcount() + 1)
    return launches


def _wanted(launches: pd.DataFrame, names: Iterable[str], each: int) -> dict[int, int]:
    """Shape -> launches to count: `each` of every kernel, over its shapes, the longest first."""
    spent = launches.groupby(["kernel", "shape"], sort=False, observed=True)["time"].sum()
    there = launches["shape"].value_counts()
    wanted: dict[int, int] = {}
    for name in names:
        shapes = spent[name].sort_values(ascending=False, kind="stable").index[:each]
        wanted |= {int(one): 1 for one in shapes}
        first = int(shapes[0])
        wanted[first] = min(each - len(shapes) + 1, int(there[first]))
    return wanted


def chosen(launches: pd.DataFrame, wanted: Mapping[int, int]) -> tuple[tuple[int, ...], int]:
    """(invocations to capture, launches in them), for so many launches of each wanted shape.

    ncu takes the same invocations of every function, so those with most of the missing shapes come first. A shape's
    first launch is warm-up and left out if enough others remain.
    """
    candidates: set[int] = set()
    for shape, number in wanted.items():
        own = launches.loc[launches["shape"] == shape, "at"].head(_FAR + 1).tolist()
        candidates |= set(own[1:] if len(own) > number else own)
    near = launches[launches["at"].isin(candidates)]
    met: dict[int, list[int]] = near.groupby("at")["shape"].apply(list).to_dict()
    lacking, found = Counter(wanted), list[int]()

    def worth(at: int) -> tuple[float, int]:
        return sum(shape in lacking for shape in set(met[at])) / len(met[at]), -at

    while lacking:
        found.append(max(met.keys() - set(found), key=worth))
        lacking -= Counter(met[found[-1]])
    return tuple(sorted(found)), sum(len(met[at]) for at in found)


def not_met(hot: Hot, frame: pd.DataFrame) -> list[Caveat]:
    """A caveat for each hot kernel that ncu did not capture."""
    there = set(same_kernels(frame["kernel"].astype("str"), hot.kernels).values())
    return [
        Caveat(
            f"hot kernel not captured by ncu: {name[:80]}",
            f"{share:.0%} of the kernel time",
            "the program does not launch the same kernels every time; capture all with --ncu",
        )
        for name, share in zip(hot.kernels, hot.shares, strict=True)
        if plain_name(name) not in there
    ]
