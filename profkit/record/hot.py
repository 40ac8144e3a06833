"""Which kernels are hot, and which few launches of them ncu has to count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from analyzers.kernels.provenance import base_name, plain_name, same_kernels
from analyzers.timeline.calls import COMMUNICATION
from collectors.caveat import Caveat

EACH = 3
"""Launches wanted of every hot kernel, of its dearest shapes: enough to see whether they differ."""
ROOM = 4
"""Launches a hot kernel may cost; where `EACH` of all cost more, fewer of each are taken."""
_FAR = 200
"""Launches of a shape among which is chosen: the program can end when the last of the chosen is counted."""


@dataclass(frozen=True)
class Hot:
    """The launches that ncu has to capture.

    `kernels`: full names, hottest first; `shares`: of the kernel time; `pattern` of their functions' names, as for -k;
    `invocations` of each function to count, from 1: `count` launches.
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
    """The `number` kernels with the longest summed time of a launches frame, without NCCL's.

    ncu matches the function's base name, so other instances of a hot template are counted where one is chosen: the
    invocations are those that meet as few of them as possible.
    """
    kernels = frame[(frame["kind"] == "kernel") & ~frame["kernel"].str.contains(COMMUNICATION)]
    if "start" in kernels:
        kernels = kernels.sort_values("start", kind="stable")
    sums = (
        kernels.groupby("kernel", sort=False, observed=True)["time"].sum().sort_values(ascending=False, kind="stable")
    )
    names = [str(name) for name in sums.index[:number]]
    bases = list(dict.fromkeys(base_name(name) for name in names))
    launches = _launches(kernels, bases)
    invocations: tuple[int, ...] = ()
    count = 0
    for each in range(EACH, 0, -1):
        invocations, count = chosen(launches, _wanted(launches, names, each))
        if count <= ROOM * len(names):
            break
    total = float(sums.sum())
    return Hot(
        tuple(names),
        tuple(float(sums[name]) / total for name in names),
        f"regex:^({'|'.join(re.escape(base) for base in bases)})$",
        invocations,
        count,
    )


def _launches(kernels: pd.DataFrame, bases: Iterable[str]) -> pd.DataFrame:
    """`kernel`, `time`, `shape` (kernel, grid and block as a number) and `at` of their launches.

    at: which invocation of its function each is, from 1, counted by process.
    """
    base = kernels["kernel"].map({name: base_name(name) for name in kernels["kernel"].unique()})
    mine = base.isin(list(bases))
    found = kernels.loc[mine, [one for one in ("kernel", "grid", "block", "time", "process") if one in kernels]]
    shape = found.groupby(
        found.columns.intersection(["kernel", "grid", "block"]).tolist(), sort=False, observed=True, dropna=False
    )
    owner = [found["process"]] if "process" in found else []
    at = found.groupby([base[mine].astype("str"), *owner], sort=False, observed=True, dropna=False).cumcount() + 1
    launches: pd.DataFrame = found.assign(shape=shape.ngroup(), at=at)
    return launches


def _wanted(launches: pd.DataFrame, names: Iterable[str], each: int) -> dict[int, int]:
    """Shape -> launches to count: `each` of every kernel, over its shapes, the dearest first."""
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
    """(invocations, launches that they are): so many launches of each wanted shape.

    Behind its first, which is warm-up, where that leaves enough; the same invocations of every function, so those that meet
    most of what is lacking.
    """
    candidates: set[int] = set()
    for shape, number in wanted.items():
        own = launches.loc[launches["shape"] == shape, "at"].head(_FAR + 1).tolist()
        candidates |= set(own[1:] if len(own) > number else own)
    near = launches[launches["at"].isin(candidates)]
    met: dict[int, list[int]] = {}
    for at, shape in zip(near["at"].tolist(), near["shape"].tolist(), strict=True):
        met.setdefault(at, []).append(shape)
    lacking = dict(wanted)
    found: list[int] = []

    def worth(at: int) -> tuple[float, int]:
        return sum(lacking.get(shape, 0) > 0 for shape in set(met[at])) / len(met[at]), -at

    while any(lacking.values()):
        best = max(met.keys() - set(found), key=worth)
        found.append(best)
        for shape in met[best]:
            if lacking.get(shape):
                lacking[shape] -= 1
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
