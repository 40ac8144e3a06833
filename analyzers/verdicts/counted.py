"""Launches added up by implementation and by kernel, each placed once under the ceilings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analyzers.counts import add_up, by_part, column, counted, missing_pipes
from analyzers.lower_bound import Work
from analyzers.placement import over_roofs, place
from collectors.caveat import Caveat
from roofline.ceilings import Roofline

NAN = math.nan


@dataclass(frozen=True)
class Counted:
    """Launches added up by implementation (`by_name`, with work) and by kernel (placed).

    hottest: kernels over all parts, the longest first; impl is the part, or how many there are.
    """

    impls: pd.DataFrame
    kernels: pd.DataFrame
    hottest: pd.DataFrame
    caveats: list[Caveat]
    by_name: Mapping[str, tuple[Mapping[Any, Any], Work | None]]

    @classmethod
    def of(cls, launches: pd.DataFrame | None, roofline: Roofline, written: Callable[[str], float]) -> Counted:
        """written: bytes of the output of a part, NaN unknown."""
        if launches is None or launches.empty:
            none = pd.DataFrame({"impl": [], "kernel": []})
            return cls(pd.DataFrame({"impl": []}), none, none, [], {})
        caveats = list(launches.attrs.get("caveats", ()))
        missing = missing_pipes(launches[launches["tool"] != "trtexec"])
        if missing:
            caveats.append(
                Caveat(
                    "not every arithmetic pipe was counted: FLOP may be too low",
                    f"without {', '.join(missing)}",
                    "collect the default counter set",
                    "pipes-missing",
                )
            )
        caveats += over_roofs(launches, roofline)
        impls = add_up(by_part(launches), ["impl"])
        works = zip(impls["impl"], impls.to_dict("records"), counted(impls), strict=True)
        kernels, hottest = _kernels(launches, roofline, written)
        return cls(impls, kernels, hottest, caveats, {str(name): (row, work) for name, row, work in works})


def _kernels(
    launches: pd.DataFrame, roofline: Roofline, written: Callable[[str], float]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Kernels by part, the largest share first, and over all parts; each placed once."""
    own = add_up(launches, ["impl", "kernel"])
    alone = own.groupby("impl", sort=False)["kernel"].transform("size") == 1
    own["output"] = [written(str(name)) if one else NAN for name, one in zip(own["impl"], alone, strict=True)]
    parts = own.groupby("kernel", sort=False)["impl"].agg(["first", "size"])
    shared = own["kernel"].map(parts["size"]) > 1
    several = add_up(launches[launches["kernel"].isin(own.loc[shared, "kernel"])], ["kernel"])
    several["impl"] = [f"{int(parts['size'][name])} ranges" for name in several["kernel"]]
    every = place(pd.concat([own, several], ignore_index=True) if len(several) else own, roofline).drop(
        columns="output"
    )
    kernels, rest = every.iloc[: len(own)], every.iloc[len(own) :]
    hottest = pd.concat([kernels[~shared.to_numpy()], rest])
    if "time" in hottest:
        hottest = hottest.sort_values("time", ascending=False, kind="stable")
    time = pd.Series(column(kernels, "time"), index=kernels.index)
    kernels = kernels.copy()
    kernels.insert(
        2, "share", time / time.groupby(kernels["impl"], sort=False).transform(lambda times: times.sum(skipna=False))
    )
    return ranked(kernels), hottest.reset_index(drop=True)


def ranked(kernels: pd.DataFrame) -> pd.DataFrame:
    """The kernels by part, the largest share of each first."""
    order = kernels["impl"].map({name: at for at, name in enumerate(kernels["impl"].unique())})
    placed = kernels.assign(_part=order)
    by = ["_part", "share"]
    ranked: pd.DataFrame = placed.sort_values(by, ascending=[True, False], kind="stable", ignore_index=True)
    without: pd.DataFrame = ranked.drop(columns="_part")
    return without
