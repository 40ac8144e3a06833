"""Work declared by `profkit.annotate`, compared with the launches of its ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from analyzers.counts import by_part, by_pipe
from analyzers.lower_bound import Work
from collectors.caveat import Caveat
from profkit.annotation import Declared


def declared_works(
    declared: Mapping[str, Declared], launches: pd.DataFrame, *, filtered: bool
) -> tuple[dict[str, tuple[Work]], list[Caveat]]:
    """Declared work by range; empty if the launches are `filtered`."""
    said = {path: one for path, one in declared.items() if one.flops is not None or one.bytes is not None}
    if not said:
        return {}, []
    if filtered:
        what = "the declared work of ranges is not compared: only some launches were captured"
        fix = "capture without -k and --hot"
        return {}, [Caveat(what, f"{len(said)} ranges", fix)]
    works, caveats = {}, []
    groups = by_part(launches)
    counts = pd.DataFrame(by_pipe(groups)).groupby(groups["impl"].to_numpy(), sort=False).sum()
    for path, one in said.items():
        passages = f"{one.passages} passages"
        if path not in counts.index:
            fix = "its kernels run on another thread, or not on the GPU"
            caveats.append(Caveat(f"range {path}: its declared work has no kernels", passages, fix))
            continue
        moved = math.nan if one.bytes is None else one.bytes
        made = Work(_pipes(one, counts.loc[path]), moved, "declared", note=f"annotate({path!r}), {passages}")
        works[path] = (made,)
    return works, caveats


def _pipes(one: Declared, counts: pd.Series[float]) -> dict[str, float]:
    """FLOP by pipe; FLOP without a pipe go to the range's main pipe, else fp32."""
    if one.flops is None:
        return {}
    flops = dict(one.flops)
    unnamed = flops.pop("", 0.0)
    if unnamed:
        most = str(counts.idxmax()) if float(counts.max()) > 0 else "fp32"
        flops[most] = flops.get(most, 0.0) + unnamed
    return flops


def outside_ranges(launches: pd.DataFrame) -> list[Caveat]:
    """Caveat about kernels outside all ranges, in a program that has ranges."""
    outside = launches["range"] == ""
    if outside.all() or not outside.any() or "time" not in launches:
        return []
    share = float(launches.loc[outside, "time"].sum() / launches["time"].sum())
    if not share > 0.01:
        return []
    fix = "autograd runs backward in a thread of its own unless profkit.annotate is open round it"
    said = f"{int(outside.sum())} launches, {share:.0%} of the GPU time"
    return [Caveat("kernels outside every range", said, fix)]
