"""Authorship of kernels: share of GPU time in kernels that the candidate's source defines."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from analyzers.counts import column
from analyzers.kernels.spelling import base_name, is_authored
from collectors.caveat import Caveat


@dataclass(frozen=True)
class Provenance:
    """Authorship: `fraction` of kernel time in authored kernels; `library`: the others."""

    fraction: float
    authored: tuple[str, ...]
    library: tuple[str, ...]
    unlaunched: tuple[str, ...]

    @property
    def never_launched(self) -> bool:
        """Whether the source defines kernels, kernels ran, and none of its own did."""
        return bool(self.unlaunched) and not self.authored and bool(self.library)

    def caveat(self, impl: str) -> Caveat | None:
        """Caveat if the candidate's own kernels did not run, or take less than half of the time."""
        if self.never_launched:
            much = f"defined {', '.join(self.unlaunched)}; ran {', '.join(map(base_name, self.library[:3]))}"
            what = f"{impl}: none of the kernels it defines was launched"
            return Caveat(what, much, "look for a fallback to the library")
        if self.authored and self.fraction < 0.5:
            much, fix = f"{self.fraction:.0%} in its own", "the speed-up is mostly the library's"
            return Caveat(f"{impl}: most of the time is in library kernels", much, fix)
        return None


def provenance(frame: pd.DataFrame, names: Iterable[str]) -> Provenance:
    """Authorship of an implementation's launches. frame: launches, or rows of Analysis.kernels."""
    wanted = sorted(set(names))
    rows = frame[frame["kind"].isin(["kernel", ""])] if "kind" in frame else frame
    own = {str(kernel): is_authored(str(kernel), wanted) for kernel in rows["kernel"].unique()}
    each = pd.Series(column(rows, "time"), index=rows.index) * rows.get("instances", 1.0)
    times = each.groupby(rows["kernel"], sort=False, observed=True).sum(min_count=1)
    total = float(times.sum(skipna=False)) if len(times) else math.nan
    mine = [name for name, authored in own.items() if authored]
    order = [str(name) for name in times.sort_values(ascending=False, kind="stable").index]
    return Provenance(
        fraction=float(times[mine].sum()) / total if total > 0 else math.nan,
        authored=tuple(name for name in order if own[name]),
        library=tuple(name for name in order if not own[name]),
        unlaunched=tuple(name for name in wanted if not any(is_authored(kernel, [name]) for kernel in mine)),
    )
