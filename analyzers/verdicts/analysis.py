"""One analysis of all implementations from times, counters, works and roofline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pandas as pd

from analyzers.counts import add_up, by_part, column, counted, inside, missing_pipes, without_half_moves
from analyzers.errors import AnalyzeError
from analyzers.lower_bound import Work
from analyzers.placement import LAUNCH_LOWER_BOUND, over_roofs, place
from analyzers.records import rows_of, to_frame, to_records
from analyzers.timeline.call import Recorded, held, splits
from analyzers.verdicts import timing
from analyzers.verdicts.implementation import (
    IMPL_COLUMNS,
    Part,
    bind,
    compared,
    lower_bound_row,
    part,
    placed,
    withdrawn,
)
from analyzers.verdicts.speedup import THRESHOLD
from analyzers.verdicts.statistics import Ratio
from collectors.caveat import Caveat, unique
from roofline.ceilings import Roofline

NAN = math.nan
SCHEMA = "profkit-metrics/1"


Needs: TypeAlias = Mapping[str, tuple[Work, ...]]


@dataclass(frozen=True)
class Analysis:
    """The analysis of one sample or program.

    impls: one row per implementation, with the columns of columns.toml. `flops` are the task's, so padding and repeated
    work do not count. kernels: one row per kernel of an implementation, largest share first: `share` of its counted
    time, `launches` of one call, summed counters, all metrics and the placement; with a recorded call also `call_time`
    [s], and `share` of that. needs: the task's work, under "", or work by implementation. hottest: kernels over all
    parts, the longest first; `impl` is the part, or the number of parts.
    """

    impls: pd.DataFrame
    kernels: pd.DataFrame
    caveats: tuple[Caveat, ...] = ()
    reference: str = "reference"
    method: str = ""
    counters_missing: str = ""
    needs: Needs = field(default_factory=dict)
    hottest: pd.DataFrame = field(default_factory=pd.DataFrame)

    def works_of(self, impl: str) -> tuple[Work, ...]:
        """Work of one implementation: its own, else the task's."""
        return _own(self.needs, impl)

    @property
    def works(self) -> tuple[Work, ...]:
        """Work of the task or of all implementations, each once."""
        every = (work for given in self.needs.values() for work in given)
        return tuple(
            {(one.source, one.bytes, one.written, one.note, *one.flops.items()): one for one in every}.values()
        )

    def impl(self, name: str) -> dict[str, Any]:
        """One implementation's row; raises AnalyzeError for an unknown name."""
        if name not in self.rows:
            raise AnalyzeError(f"no implementation {name!r}", fix=f"use one of: {', '.join(self.rows)}")
        return dict(self.rows[name])

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Rows of `impls` by implementation; {} if nothing was timed."""
        return {str(row["impl"]): row for row in rows_of(self.impls)}

    @cached_property
    def kernel_rows(self) -> list[dict[str, Any]]:
        """Rows of `kernels`."""
        return rows_of(self.kernels)

    @cached_property
    def ran(self) -> dict[str, list[int]]:
        """Part -> places of its kernels, inner ranges included."""
        return {name: rows.tolist() for name, rows in inside(self.kernels).items()} if len(self.kernels) else {}

    def to_dict(self) -> dict[str, Any]:
        """The document of metrics.json: SI, unrounded, NaN as None."""
        return {
            "schema": SCHEMA,
            "reference": self.reference,
            "method": self.method,
            "threshold": THRESHOLD,
            "counters_missing": self.counters_missing,
            "impls": to_records(self.impls),
            "kernels": to_records(self.kernels),
            "works": [work.to_dict() for work in self.works],
            "caveats": msgspec.to_builtins(self.caveats),
        }


def _own(needs: Needs, name: str) -> tuple[Work, ...]:
    return needs.get(name, needs.get("", ()))


@dataclass(frozen=True)
class _Timings:
    """Deciding samples, and their figures.

    `clocks`: results of two clocks that disagree; `caller`: columns by a waiting caller's clock.
    """

    timed: Mapping[str, timing.Timed] = field(default_factory=dict)
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    clocks: Mapping[str, str] = field(default_factory=dict)
    caller: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, timings: pd.DataFrame | None, reference: str, spread: float) -> _Timings:
        if timings is None or not len(timings):
            return cls()
        samples = timing.check(timings)
        chosen = timing.choose(samples)
        ratios = timing.speedups(chosen, reference, spread)
        clocks = timing.two_clocks(samples, chosen, ratios, reference)
        caller = timing.for_a_caller(samples, chosen, ratios, reference, spread)
        return cls(timing.spreads(chosen, samples, spread), ratios, clocks, caller)


@dataclass(frozen=True)
class _Counted:
    """Sums of launches by implementation (`by_name`, with work) and by kernel (placed).

    hottest: kernels over all parts, the longest first; impl is the part, or the number of parts.
    """

    impls: pd.DataFrame
    kernels: pd.DataFrame
    hottest: pd.DataFrame
    caveats: list[Caveat]
    by_name: Mapping[str, tuple[Mapping[Any, Any], Work | None]]

    @classmethod
    def of(cls, launches: pd.DataFrame | None, roofline: Roofline, needs: Needs) -> _Counted:
        """Add up and place launches."""
        if launches is None or launches.empty:
            none = pd.DataFrame({"impl": [], "kernel": []})
            return cls(pd.DataFrame({"impl": []}), none, none, [], {})
        caveats = list(launches.attrs.get("caveats", ()))
        if missing := missing_pipes(launches[launches["tool"] != "trtexec"]):
            what = "not every arithmetic pipe was counted: FLOP may be too low"
            fix = "collect the default counter set"
            caveats.append(Caveat(what, f"without {', '.join(missing)}", fix, "pipes-missing"))
        caveats += over_roofs(launches, roofline)
        impls = add_up(by_part(launches), ["impl"])
        rows = zip(impls["impl"], rows_of(impls), counted(impls), strict=True)
        kernels, hottest = _kernels(launches, roofline, needs)
        return cls(impls, kernels, hottest, caveats, {str(name): (row, work) for name, row, work in rows})


def _kernels(launches: pd.DataFrame, roofline: Roofline, needs: Needs) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Kernels by part, the largest share first, and over all parts; each placed once."""
    own = add_up(launches, ["impl", "kernel"])
    alone = own.groupby("impl", sort=False)["kernel"].transform("size") == 1
    written = [next((work.written for work in _own(needs, str(name)) if work.written > 0), NAN) for name in own["impl"]]
    own["output"] = np.where(alone, written, NAN)
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
    time = column(kernels, "time")
    share = np.empty(len(time))
    for rows in kernels.groupby("impl", sort=False).indices.values():
        share[rows] = time[rows] / time[rows].sum()
    kernels = kernels.copy()
    kernels.insert(2, "share", share)
    return _ranked(kernels), hottest.reset_index(drop=True)


def _ranked(kernels: pd.DataFrame) -> pd.DataFrame:
    """Kernels by part, the largest share of each first."""
    order = np.lexsort((-kernels["share"].to_numpy(), pd.factorize(kernels["impl"])[0]))
    ranked: pd.DataFrame = kernels.iloc[order].reset_index(drop=True)
    return ranked


@dataclass(frozen=True)
class Recording:
    """Recording conditions: `l2_bytes` of the cache, `target` relative half-width of medians.

    spread: assumed relative difference of another process (statistics.ratio); calls: a recorded call by implementation;
    precisions: measured precision of the answers by implementation.
    """

    l2_bytes: float = NAN
    target: float = 0.01
    spread: float = 0.0
    calls: Mapping[str, Recorded] = field(default_factory=dict)
    precisions: Mapping[str, str] = field(default_factory=dict)


def analyze(
    timings: pd.DataFrame | None,
    launches: pd.DataFrame | None,
    needs: Needs,
    roofline: Roofline,
    *,
    reference: str = "reference",
    counters_missing: str = "",
    recording: Recording | None = None,
) -> Analysis:
    """Analyze every implementation that was timed or counted.

    timings: samples as in timings.csv, None if nothing was timed. launches: the launches frame of one call, None or
    empty without counters (`counters_missing` says why). needs: see Analysis. reference: "" for no comparison.
    Raises AnalyzeError on invalid input.
    """
    recording = recording or Recording()
    times = _Timings.of(timings, reference, recording.spread)
    caveats = [Caveat("no hardware counters in these numbers", counters_missing, code="no-counters")]
    caveats = caveats if counters_missing else []
    caveats += timing.caveats(times.timed, times.ratios, reference, recording.target)
    if launches is not None and len(launches):
        launches, halves = without_half_moves(launches, needs)
        caveats += halves
    counts = _Counted.of(launches, roofline, needs)
    caveats += counts.caveats
    rows, kernels, found = _Rows(times, counts, needs, roofline, recording).of(launches, reference)
    judged: list[dict[str, Any]] = []
    for row in rows:
        name = row["impl"]
        told = compared(name, row, times.ratios.get(name), reference, judged, times.clocks.get(name, ""))
        judged.append(row | told | {"caller": "", **times.caller.get(name, {})})
    by_name = {row["impl"]: row for row in judged}
    caveats = [one for one in caveats if not timing.explained(one, by_name, reference, roofline)]
    return Analysis(
        to_frame(judged, IMPL_COLUMNS),
        kernels,
        unique([*caveats, *found]),
        reference,
        next((one.method for one in times.timed.values()), ""),
        counters_missing,
        needs,
        counts.hottest,
    )


@dataclass(frozen=True)
class _Rows:
    """Data from which rows of implementations are made."""

    times: _Timings
    counts: _Counted
    needs: Needs
    roofline: Roofline
    recording: Recording

    def of(
        self, launches: pd.DataFrame | None, reference: str
    ) -> tuple[list[dict[str, Any]], pd.DataFrame, list[Caveat]]:
        """Rows of all implementations without speed-ups, the kernels, and caveats about them."""
        names = [*self.times.timed, *map(str, self.counts.impls["impl"])]
        # The reference first, then as timed, then as launched.
        first = [reference] if reference and reference in names else []
        parts = [self._part(name) for name in dict.fromkeys([*first, *names])]
        self._bind(parts, reference)
        kernels = self._in_calls(launches, {one.row["impl"]: one.row["kernel_time"] for one in parts})
        shares = splits(kernels, {one.row["impl"]: (one.row["time"], one.row["kernel_time"]) for one in parts})
        rows = []
        for one, under in zip(parts, placed(parts, self.counts.impls, self.roofline), strict=True):
            row = {**one.row, **under}
            rows.append({**row, **held(row, *shares.get(row["impl"], ({}, "", False))), **lower_bound_row(one)})
        return rows, kernels, [caveat for one in parts for caveat in one.caveats]

    def _part(self, name: str) -> Part:
        timed, counted = self.times.timed.get(name), self.counts.by_name.get(name, (None, None))
        one = part(name, timed, counted, _own(self.needs, name))
        one.precision = self.recording.precisions.get(name, "")
        if name in self.recording.calls:
            one.row["kernel_time"] = self.recording.calls[name].seconds(one.row["time"], one.row["kernels"])
        return one

    def _bind(self, parts: Sequence[Part], reference: str) -> None:
        """Give all parts their lower bounds, except a bound that the reference beats."""
        bind(parts, self.roofline, self.recording.l2_bytes)
        for one in parts:
            if (least := one.task) is None:
                continue
            if least.time < LAUNCH_LOWER_BOUND and math.isnan(self.roofline.peak("launch")):
                what = "the lower bound excludes launch overhead: no empty kernel was timed on this device"
                much = f"a lower bound of {least.time:.3g} s, where kernels take about {LAUNCH_LOWER_BOUND:.2g} s"
                one.caveats.append(Caveat(what, much, "`profkit ceilings` measures it", "lower-bound-without-launch"))
            caveat = withdrawn(one) if reference and one.row["impl"] == reference else None
            if caveat is not None:
                one.caveats.append(caveat)
                for other in parts:
                    other.task = None if other.task == least else other.task
                return

    def _in_calls(self, launches: pd.DataFrame | None, totals: Mapping[str, float]) -> pd.DataFrame:
        """Kernels with `call_time` [s] and share of it, if a call like the timed one was recorded."""
        kernels, calls = self.counts.kernels, self.recording.calls
        if launches is None or not len(launches) or not calls:
            return kernels
        ran = {str(name): rows for name, rows in launches.groupby("impl", sort=False)}
        spent = {
            name: calls[name].of(rows) for name, rows in ran.items() if name in calls and totals.get(name, NAN) > 0
        }
        whole = {name: sum(one.values()) for name, one in spent.items() if one}
        if not whole:
            return kernels
        pairs = zip(kernels["impl"].astype(str), kernels["kernel"].astype(str), strict=True)
        shares = [spent[impl].get(kernel, NAN) / whole[impl] if impl in whole else NAN for impl, kernel in pairs]
        told = kernels.assign(call_time=np.array(shares) * kernels["impl"].map(totals).to_numpy(dtype="float64"))
        told["share"] = np.where(np.isnan(shares), kernels["share"], shares)
        return _ranked(told)
