"""Times, counters, works and roofline -> one judgement, ready for every renderer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pandas as pd

from analyzers.counts import add_up, by_part, column, counted, missing_pipes, without_half_moves
from analyzers.errors import AnalyzeError
from analyzers.floor import Work
from analyzers.placement import LAUNCH_FLOOR, over_roofs, place
from analyzers.records import to_frame, to_records
from analyzers.timeline.call import Recorded, held, reasons, splits
from analyzers.verdicts import timing
from analyzers.verdicts.implementation import (
    IMPL_COLUMNS,
    Floors,
    Part,
    compared,
    floor_row,
    floors,
    part,
    placed,
    withdrawn,
)
from analyzers.verdicts.speedup import THRESHOLD
from collectors.doubt import Doubt, unique
from roofline.ceilings import Roofline

NAN = math.nan
SCHEMA = "profkit-metrics/1"

Works: TypeAlias = "Mapping[str, Sequence[Work]] | Sequence[Work] | Work | None"


@dataclass(frozen=True)
class Analysis:
    """What is known about one sample.

    impls: one row an implementation, IMPL_COLUMNS. `time` [s] is one call by `method` ("ncu" when nothing
    else timed it), `speedup` = reference time / time, `clocks` what two clocks say of it where they disagree, `verdict` faster | slower | same | undecided
    (statistics.py), "impossible" when the time is below the floor, "reference", or "" without a reference.
    `flops` of one call are the task's (`flops_source`: declared or modelled), so that padding and repeated work
    achieve nothing; without a work those that were counted (a lower bound where `flops_lower`), which
    `counted_flops` holds in any case. `bytes` (DRAM) and the place under the roofs come from `work_source`: counted,
    declared or modelled, or "counted, modelled" when only a part was counted; the rates are those over `time`.
    `bound_by`: what holds most of the time, "mixed" where nothing does; `bound_split` says it by shares. `roof`: what it
    is bound by where that is a roof, else the nearest; `roof_share`: the time at it over `time`.
    `floor_time` is the task's, `floor_own_time` that at the precision the implementation computed in; `floor_ratio` =
    time / floor; `floor_hard` [s]: no measurement may be shorter (highest ceilings, nothing that may stay in L2);
    `counted_hard` [s]: the same of what was counted;
    `compulsory_ratio` = counted DRAM bytes / compulsory bytes. `counted_time` is the sum of kernel times of
    the tool that counted, `ncu_time` the same when that was ncu; `kernel_time` [s]: of a call, in which some kernel
    runs, as a record of one whole call tells it.
    kernels: one row a kernel of an implementation, largest share first: `share` of the implementation's
    counted time, `launches` of one call, the counters added up, every metric, `bound_by`, `compute`,
    `evidence`. `time` [s] is the tool's that counted, as the counters are: a place under a roof is of both. Where one whole call
    like the timed ones was recorded `call_time` [s] is what the kernel takes in it, and `share` is of that.
    works: what the task must do; own_works: the same by implementation where each does something else.
    hottest: kernels over all parts, the longest first, placed; `impl` is the part, or how many there are.
    """

    impls: pd.DataFrame
    kernels: pd.DataFrame
    doubts: tuple[Doubt, ...] = ()
    reference: str = "reference"
    method: str = ""
    threshold: float = THRESHOLD
    counters_missing: str = ""
    works: tuple[Work, ...] = field(default=())
    own_works: Mapping[str, tuple[Work, ...]] = field(default_factory=dict)
    hottest: pd.DataFrame = field(default_factory=pd.DataFrame)

    def works_of(self, impl: str) -> tuple[Work, ...]:
        """The work of one implementation: its own where each has one (the ranges of a program), else the task's."""
        return self.own_works.get(impl, ()) if self.own_works else self.works

    def impl(self, name: str) -> dict[str, Any]:
        """One implementation's row; raises AnalyzeError when there is none of that name."""
        rows = self.impls[self.impls["impl"] == name]
        if rows.empty:
            raise AnalyzeError(f"no implementation {name!r}", fix=f"there are: {', '.join(self.impls['impl'])}")
        return {str(key): value for key, value in rows.iloc[0].to_dict().items()}

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The rows of `impls` by implementation; {} when nothing was timed."""
        rows = self.impls.to_dict("records")
        return {str(row["impl"]): {str(key): value for key, value in row.items()} for row in rows}

    def to_dict(self) -> dict[str, Any]:
        """The document of metrics.json: SI, unrounded, NaN as None."""
        document = _Document(
            SCHEMA,
            self.reference,
            self.method,
            self.threshold,
            self.counters_missing,
            to_records(self.impls),
            to_records(self.kernels),
            [work.to_dict() for work in self.works],
            {name: [one.to_dict() for one in works] for name, works in self.own_works.items()},
            self.doubts,
        )
        plain: dict[str, Any] = msgspec.to_builtins(document)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Analysis:
        """The analysis of `to_dict`; unknown fields are ignored. Raises AnalyzeError on another schema."""
        schema = str(data.get("schema", ""))
        if schema != SCHEMA:
            raise AnalyzeError(
                f"metrics: schema {schema!r}, not {SCHEMA!r}", fix="derive the metrics again from the run"
            )
        found = msgspec.convert(data, _Document)
        return cls(
            to_frame(found.impls, IMPL_COLUMNS),
            to_frame(found.kernels, ()),
            found.doubts,
            found.reference,
            found.method,
            found.threshold,
            found.counters_missing,
            tuple(Work.from_dict(row) for row in found.works),
            {name: tuple(Work.from_dict(row) for row in rows) for name, rows in found.own_works.items()},
        )


class _Document(msgspec.Struct):
    """metrics.json."""

    schema: str
    reference: str = "reference"
    method: str = ""
    threshold: float = THRESHOLD
    counters_missing: str = ""
    impls: list[dict[str, Any]] = []
    kernels: list[dict[str, Any]] = []
    works: list[dict[str, Any]] = []
    own_works: dict[str, list[dict[str, Any]]] = {}
    doubts: tuple[Doubt, ...] = ()


def analyze(
    timings: pd.DataFrame | None,
    launches: pd.DataFrame | None,
    works: Works,
    roofline: Roofline,
    *,
    reference: str = "reference",
    counters_missing: str = "",
    calls: int | Mapping[str, int] = 1,
    method: str = "",
    l2_bytes: float = NAN,
    target: float = 0.01,
    threshold: float = THRESHOLD,
    recorded: Mapping[str, Recorded] = MappingProxyType({}),
    spread: float = 0.0,
) -> Analysis:
    """Judge every implementation that was timed or counted.

    timings: samples as in timings.csv, None when nothing was timed. launches: the launches frame, None or
    empty without counters (`counters_missing` says why). works: what the task must do, for all
    implementations or by name.
    calls: calls of an implementation that `launches` holds. method: the timing method to judge by, "" the
    best there is. reference: "" where nothing is compared.
    l2_bytes: size of the L2 [B]. target: relative half-width wanted of the medians. threshold: of the
    verdict. recorded: one whole call of each implementation, as far as there are any. spread: what another process is
    taken to differ by (statistics.ratio). Raises AnalyzeError on input that cannot be judged.
    """
    samples = timing.check(timings) if timings is not None and len(timings) else None
    chosen = timing.choose(samples, method) if samples is not None else None
    timed = timing.spreads(chosen, samples, spread) if chosen is not None else {}
    ratios = timing.speedups(chosen, reference, threshold, spread) if chosen is not None else {}
    used = next((t.method for t in timed.values()), "")
    clocks = {}
    if samples is not None and chosen is not None:
        clocks = timing.two_clocks(samples, chosen, ratios, reference, threshold)
    doubts = (
        [Doubt("no hardware counters in these numbers", counters_missing, code="no-counters")]
        if counters_missing
        else []
    )
    again = timing.timed_again(samples, used) if samples is not None else ()
    doubts += timing.doubts(timed, ratios, reference, target, again)
    doubts += timing.compare_methods(samples, used) if samples is not None else []
    if launches is not None and len(launches):
        launches, halves = without_half_moves(
            launches, works if isinstance(works, Mapping) else {"": _all_works(works)}
        )
        doubts += halves
    counts = _Counts.of(launches, roofline, calls, lambda name: _written(_works_of(works, name)))
    doubts += counts.doubts
    names = _names(reference, timed, counts)
    ran = {name: recorded[name].of(part) for name, part in _by_impl(launches if recorded else None) if name in recorded}
    rows, kernels, found = _rows(names, timed, counts, works, roofline, l2_bytes, reference, recorded, ran)
    judged: list[dict[str, Any]] = []
    for row in rows:
        name = row["impl"]
        judged.append(row | compared(name, row, ratios.get(name), reference, judged, clocks.get(name, "")))
    by_name = {row["impl"]: row for row in judged}
    doubts = [timing.with_precision(one, by_name, reference, roofline) for one in doubts]
    own = {name: tuple(given) for name, given in works.items()} if isinstance(works, Mapping) else {}
    return Analysis(
        to_frame(judged, IMPL_COLUMNS),
        kernels,
        unique([*doubts, *found]),
        reference,
        used,
        threshold,
        counters_missing,
        _all_works(works),
        own,
        counts.hottest,
    )


def _rows(
    names: Sequence[str],
    timed: Mapping[str, timing.Timed],
    counts: _Counts,
    works: Works,
    roofline: Roofline,
    l2_bytes: float,
    reference: str,
    recorded: Mapping[str, Recorded],
    ran: Mapping[str, Mapping[str, float]],
) -> tuple[list[dict[str, Any]], pd.DataFrame, list[Doubt]]:
    """The rows of all implementations without speed-ups, the kernels, and the doubts about them. ran: seconds of each kernel in
    the recorded call of an implementation."""
    parts, doubts = [], []
    for name in names:
        row, hardware = counts.by_name.get(name, (None, None))
        one, found = part(name, timed.get(name), row, hardware, _works_of(works, name), roofline, l2_bytes)
        if name in recorded:
            one.row["kernel_time"] = recorded[name].seconds(one.row["time"], one.row["kernels"])
        parts.append(one)
        doubts.append(found)
    least = _floors(parts, reference, roofline, l2_bytes, doubts)
    kernels = _in_calls(counts.kernels, ran, {one.row["impl"]: one.row["kernel_time"] for one in parts})
    shares = splits(kernels, {one.row["impl"]: (one.row["time"], one.row["kernel_time"]) for one in parts})
    why = reasons(kernels)
    rows = []
    for one, row, floor, found in zip(parts, placed(parts, counts.impls, roofline), least, doubts, strict=True):
        columns, below = floor_row(one, floor)
        found += below
        rows.append(
            {**one.row, **row, **held(row, shares.get(one.row["impl"], {}), why.get(one.row["impl"], "")), **columns}
        )
    return rows, kernels, [doubt for found in doubts for doubt in found]


def _by_impl(launches: pd.DataFrame | None) -> Iterator[tuple[str, pd.DataFrame]]:
    if launches is not None and len(launches):
        yield from ((str(name), part) for name, part in launches.groupby("impl", sort=False))


def _in_calls(
    kernels: pd.DataFrame, ran: Mapping[str, Mapping[str, float]], totals: Mapping[str, float]
) -> pd.DataFrame:
    """The kernels with their `call_time` [s] and share of it, where one call that stands for the timed ones was recorded.
    totals: seconds of a call in which kernels run, NaN where none was.
    """
    spent = {name: one for name, one in ran.items() if one and totals.get(name, NAN) > 0}
    if not spent or not len(kernels):
        return kernels
    whole = {name: sum(one.values()) for name, one in spent.items()}
    pairs = zip(kernels["impl"].astype(str), kernels["kernel"].astype(str), strict=True)
    shares = [spent[impl].get(kernel, NAN) / whole[impl] if impl in spent else NAN for impl, kernel in pairs]
    told = kernels.assign(call_time=np.array(shares) * kernels["impl"].map(totals).to_numpy(dtype="float64"))
    told["share"] = np.where(np.isnan(shares), kernels["share"], shares)
    return _ranked(told)


def _floors(
    parts: Sequence[Part], reference: str, roofline: Roofline, l2_bytes: float, doubts: Sequence[list[Doubt]]
) -> list[Floors | None]:
    """The floors of all parts, without those that the reference goes below; says so, and where launches are unknown."""
    found = floors(parts, roofline, l2_bytes)
    for one, floor, said in zip(parts, found, doubts, strict=True):
        if floor is not None and floor.task.time < LAUNCH_FLOOR and math.isnan(roofline.peak("launch")):
            said.append(
                Doubt(
                    "the floor knows no launch: what an empty kernel takes on this device was not measured",
                    f"a floor of {floor.task.time:.3g} s, where kernels take about {LAUNCH_FLOOR:.2g} s",
                    "`profkit ceilings` measures it",
                    "floor-without-launch",
                )
            )
        doubt = withdrawn(one, floor) if reference and one.row["impl"] == reference else None
        if doubt is not None and floor is not None:
            said.append(doubt)
            return [None if other is not None and other.task == floor.task else other for other in found]
    return found


@dataclass(frozen=True)
class _Counts:
    """The launches added up: by implementation (`by_name`: with the counted work), and by kernel with its placement.

    hottest: kernels over all parts, the longest first; impl is the part, or how many there are.
    """

    impls: pd.DataFrame
    kernels: pd.DataFrame
    hottest: pd.DataFrame
    doubts: list[Doubt]
    by_name: Mapping[str, tuple[Mapping[Any, Any], Work | None]]

    @classmethod
    def of(
        cls,
        launches: pd.DataFrame | None,
        roofline: Roofline,
        calls: int | Mapping[str, int],
        written: Callable[[str], float],
    ) -> _Counts:
        if launches is None or launches.empty:
            none = pd.DataFrame({"impl": [], "kernel": []})
            return cls(pd.DataFrame({"impl": []}), none, none, [], {})
        doubts = list(launches.attrs.get("doubts", ()))
        missing = missing_pipes(launches[launches["tool"] != "trtexec"])
        if missing:
            doubts.append(
                Doubt(
                    "not every arithmetic pipe was counted: FLOP may be too low",
                    f"without {', '.join(missing)}",
                    "collect the default counter set",
                    "pipes-missing",
                )
            )
        doubts += over_roofs(launches, roofline)
        impls = add_up(by_part(launches), ["impl"], calls=calls)
        works = zip(impls["impl"], impls.to_dict("records"), counted(impls), strict=True)
        kernels, hottest = _kernels(launches, roofline, calls, written)
        return cls(impls, kernels, hottest, doubts, {str(name): (row, work) for name, row, work in works})


def _kernels(
    launches: pd.DataFrame, roofline: Roofline, calls: int | Mapping[str, int], written: Callable[[str], float]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Kernels by part with their share of its time, the largest first; kernels of all parts. Each is placed once."""
    own = add_up(launches, ["impl", "kernel"], calls=calls)
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
    kernels.insert(2, "share", time / time.groupby(kernels["impl"], sort=False).transform(_whole))
    return _ranked(kernels), hottest.reset_index(drop=True)


def _ranked(kernels: pd.DataFrame) -> pd.DataFrame:
    """The kernels by part, the largest share of each first."""
    order = kernels["impl"].map({name: at for at, name in enumerate(kernels["impl"].unique())})
    placed = kernels.assign(_part=order)
    by = ["_part", "share"]
    ranked: pd.DataFrame = placed.sort_values(by, ascending=[True, False], kind="stable", ignore_index=True)
    without: pd.DataFrame = ranked.drop(columns="_part")
    return without


def _whole(times: pd.Series[float]) -> float:
    """The sum, NaN when one is unknown."""
    return float(times.sum(skipna=False))


def _names(reference: str, timed: Mapping[str, timing.Timed], counts: _Counts) -> list[str]:
    """The reference first, then as timed, then as launched."""
    names = [*timed, *(str(name) for name in counts.impls["impl"])]
    return list(dict.fromkeys(([reference] if reference and reference in names else []) + names))


def _works_of(works: Works, name: str) -> tuple[Work, ...]:
    if isinstance(works, Mapping):
        return tuple(works.get(name, works.get("", ())))
    return _all_works(works)


def _written(works: Sequence[Work]) -> float:
    """Bytes of the output; NaN unknown."""
    return next((work.written for work in works if work.written > 0), NAN)


def _all_works(works: Works) -> tuple[Work, ...]:
    if works is None:
        return ()
    if isinstance(works, Work):
        return (works,)
    return unique_works(works if not isinstance(works, Mapping) else (w for many in works.values() for w in many))


def unique_works(works: Iterable[Work]) -> tuple[Work, ...]:
    """Works in order, each once."""
    found: dict[Any, Work] = {}
    for work in works:
        found.setdefault((work.source, work.bytes, work.written, work.note, *work.flops.items()), work)
    return tuple(found.values())
