"""Data of a page's script: ceilings, kernels, samples, launches; NaN is null, six digits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from analyzers.records import number
from profkit.report import explain
from profkit.report.explain import ending, in_order
from profkit.report.layout import cut
from profkit.report.messages import bound, catalogue, in_each, named, say
from profkit.report.names import short_names
from roofline.ceilings import BANDWIDTH
from roofline.figure.style import BANDS, places, shape

if TYPE_CHECKING:
    import pandas as pd

    from analyzers.kernels.source_lines import Line
    from profkit.study.study import Study

LONGEST_NAME = 300
"""Characters of a kernel's name on the page: two thousand template names would fill megabytes."""
MOST_SAMPLES = 600
MOST_LAUNCHES = 40_000
"""Pieces of GPU work on the page's timeline: about 12 bytes each."""


@dataclass(frozen=True)
class Shown:
    """A part of a run on a page, its label and the place of its colour."""

    study: Study
    impl: str
    label: str
    colour: int
    on: bool = True


def shown_of(study: Study) -> list[Shown]:
    """Parts of one run as ranked; of implementations the best and the reference are drawn first."""
    names = list(dict.fromkeys([*(part.name for part in study.parts), *in_order(study)]))
    first = (study.best.name if study.best is not None else "", study.analysis.reference)
    on = {name: not study.manifest.impls or name in first for name in names}
    unnamed = say("no_range") if len(names) > 1 else ""
    colours, ranked = places(names), dict.fromkeys([*(part.name for part in study.ranked), *names])
    return [Shown(study, name, name or unnamed, colours[name], on[name]) for name in ranked]


def data_of(parts: Sequence[Shown], *, best: str = "") -> dict[str, Any]:
    """Data of these parts, which may be of several runs; `best`: the label drawn in front."""
    by_path = {part.study.path: part.study for part in parts}
    first = next(iter(by_path.values()), None)
    told = {path: _kernels(study) for path, study in by_path.items()}
    kernels = [{"impl": part.label, **row} for part in parts for row in told[part.study.path].get(part.impl, ())]
    lower_bounds = _lower_bounds(first) if first is not None else []
    pipes = list(dict.fromkeys(one["pipe"] for one in (*kernels, *lower_bounds) if one["pipe"]))
    found = [first.roofline.get(name) for name in dict.fromkeys([*BANDWIDTH, *pipes])] if first is not None else []
    heads: dict[str, list[str]] = {}
    if first is not None and by_step(first):
        # What the script says of the kernels of a step instead of its own words.
        keys = {"launches": "col_launches", "time": "col_time", "of_time": "of_kernel_time"}
        heads = {name: list(catalogue().say[key + ending(first)]) for name, key in keys.items()}
        heads["share"] = list(catalogue().say["kernel_share"])
    return {
        "best": best,
        "ranged": first is not None and not first.manifest.impls,
        "heads": heads,
        "parts": [
            {"name": part.label, "colour": part.colour, "shape": shape(part.colour), "on": part.on} for part in parts
        ],
        "kernels": kernels,
        "whole": first is not None and not len(first.kernels),
        "pipes": pipes,
        "roofs": [{"name": c.name, "kind": c.kind, "peak": six(c.peak), "source": c.source} for c in found if c],
        "lower_bounds": lower_bounds,
    }


def _kernels(study: Study) -> Mapping[str, list[dict[str, Any]]]:
    """Kernels of each part, in one pass for thousands of ranges; an uncounted call is one row."""
    kernels, first = study.kernels, _named_first(study)
    if not len(kernels) and study.manifest.impls:
        kernels = study.calls
    if first:
        step = study.step[study.step["kind"] == "kernel"]
        own = step.groupby(["range", "name"], sort=False, observed=True)[["time", "count"]].sum()
        own = own.set_axis(["time", "launches"], axis=1).rename_axis(["impl", "kernel"]).reset_index()
        own = own.assign(share=own["time"] / own["time"].sum())[own["time"] > 0]
        kernels = kernels.drop(columns=["time", "launches", "share"]).merge(own, on=["impl", "kernel"])
    waits = {(impl, kernel): found for impl, kernel, found in explain.by_kernel(study.lines)}
    told: dict[str, list[dict[str, Any]]] = {}
    for impl, part in kernels.groupby("impl", sort=False, observed=True) if len(kernels) else ():
        names = [*map(str, part["kernel"])]
        short = short_names([*first, *names])
        rows = zip(part.to_dict("records"), names, strict=True)
        told[str(impl)] = [_kernel(row, short[name], waits.get((str(impl), name), ())) for row, name in rows]
    return told


def _named_first(study: Study) -> list[str]:
    """Kernels of a step in the order in which equal short names are numbered."""
    return [str(name) for name in study.step["name"][study.step["kind"] == "kernel"].unique()] if by_step(study) else []


def by_step(study: Study) -> bool:
    """Whether kernel figures are per step: the timeline's own, not another tool's."""
    frame, launches = study.captured.timeline, study.launches
    if not study.stepwise or frame is None or launches is None or not len(launches):
        return False
    return bool(launches["tool"].iloc[0] == frame["tool"].iloc[0] and launches["impl"].isin(frame["range"]).all())


def _kernel(row: Mapping[Any, Any], short: str, found: Sequence[Line] = ()) -> dict[str, Any]:
    """A kernel with the source lines that hold it up, as sentences, where they were recorded."""
    lines = [in_each(partial(explain.sentence, one)) for one in explain.shown_of(found)]
    return {
        **({"lines": lines} if lines else {}),
        "kernel": page_name(str(row["kernel"])),
        "short": short,
        "time": six(number(row, "time")),
        "share": six(number(row, "share")),
        "launches": six(number(row, "launches")),
        "flops": six(number(row, "achieved_flops")),
        "dram": six(number(row, "dram_bandwidth")),
        "dramf": six(number(row, "dram_fraction")),
        "ai": {level: six(number(row, f"intensity_{level}")) for level in BANDWIDTH},
        "frac": six(number(row, "roof_share")),
        "roof": in_each(lambda: named(str(row.get("roof") or ""))),
        "of": str(row.get("roof") or ""),
        "at": str(row.get("roof") or "") == str(row.get("bound_by")),
        "occ": six(number(row, "occupancy")),
        "pipe": str(row.get("compute") or ""),
        "bound": in_each(lambda: bound(row)),
    }


def page_name(kernel: str) -> str:
    """A kernel's name as it stands on the page."""
    return cut(kernel.replace("`", "'"), LONGEST_NAME)


def six(value: float) -> float | None:
    """Six digits, None for what is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _lower_bounds(study: Study) -> list[dict[str, Any]]:
    for work in study.analysis.works:
        if work.flops and work.intensity > 0:
            pipe = max(work.flops, key=lambda name: work.flops[name])
            top = study.roofline.attainable(work.intensity, pipe)
            if math.isfinite(top):
                return [{"ai": six(work.intensity), "flops": six(top), "pipe": pipe}]
    return []


def samples_of(parts: Sequence[Shown]) -> list[dict[str, Any]]:
    """The samples that the parts' times come from, thinned evenly where there are very many."""
    found = []
    for part in parts:
        timings, method = part.study.timings, part.study.analysis.method
        if timings is None or not len(timings):
            continue
        kept = timings[timings["kept"].ne(0)] if "kept" in timings else timings
        rows = kept[(kept["impl"] == part.impl) & (kept["method"] == method)]
        seconds = [value for value in rows["seconds"].astype(float) if math.isfinite(value) and value > 0]
        shown = [six(value) for value in seconds[:: max(1, len(seconds) // MOST_SAMPLES)]]
        found += [{"impl": part.label, "method": method, "seconds": shown}] if shown else []
    return found


# ---- the timeline


def timeline_of(study: Study) -> dict[str, Any] | None:
    """Launches over time in units of 10 ns; None without a timeline, or of implementations."""
    frame = study.captured.timeline
    if frame is None or study.manifest.impls or "start" not in frame or not (frame["time"] > 0).any():
        return None
    known = frame[frame["start"].notna() & (frame["time"] > 0)].sort_values("start", kind="stable")
    begin, hidden = float(known["start"].iloc[0]), max(0, len(known) - MOST_LAUNCHES)
    known, whole = known.iloc[:MOST_LAUNCHES], len(known)
    start = np.rint((known["start"].to_numpy() - begin) * 1e8).astype(np.int64)
    length = np.maximum(1, np.rint(known["time"].to_numpy() * 1e8)).astype(np.int64)
    codes, names = known["kernel"].factorize()
    # Device and stream, as far as there are several of them.
    places = [f"{name} " + known[name].astype(str) for name in ("process", "device", "stream") if name in known]
    several = [one for one in places if one.nunique() > 1] or [known["device"].astype(str)]
    lanes, lane_names = several[0].str.cat(several[1:], sep=", ").factorize()
    # As in the table, where those of the kernels come first.
    counted = study.kernels["kernel"] if len(study.kernels) else ()
    short = short_names([*_named_first(study), *map(str, counted), *map(str, names)])
    return {
        "start": np.diff(start, prepend=0).tolist(),
        "length": length.tolist(),
        "kernel": codes.tolist(),
        "lane": lanes.tolist() if len(lane_names) > 1 else [],
        "copy": sorted(set(codes[known["kind"].isin(("memcpy", "memset")).to_numpy()].tolist())),
        "fill": sorted(set(codes[(known["kind"] == "memset").to_numpy()].tolist())),
        "names": [short[str(name)] for name in names],
        "lanes": [str(name) for name in lane_names],
        "ranges": _ranges(known, begin),
        # Edges of the steady steps of the first device.
        "steady": [round((at - begin) * 1e8) for one in [*study.budgets.values()][:1] for at in one.edges],
        "bands": BANDS,
        "hidden": hidden,
        "whole": whole,
    }


MOST_RANGES = 600


def _ranges(frame: pd.DataFrame, begin: float) -> list[list[Any]]:
    """[name, depth, first start, last end] of launches inside one range, in units of 10 ns."""
    paths = frame["range"].astype(str).to_numpy()
    starts = np.rint((frame["start"].to_numpy() - begin) * 1e8).astype(np.int64)
    ends = starts + np.rint(frame["time"].to_numpy() * 1e8).astype(np.int64)
    found: list[list[Any]] = []
    deepest = max((path.count("/") + 1 for path in set(paths) if path), default=0)
    for depth in range(min(deepest, 3)):
        own = np.array(["/".join(path.split("/")[: depth + 1]) if path.count("/") >= depth else "" for path in paths])
        edges = np.flatnonzero(np.concatenate(([True], own[1:] != own[:-1], [True])))
        for first, last in pairwise(edges):
            if own[first]:
                name = own[first].rsplit("/", 1)[-1]
                found.append([name, depth, int(starts[first]), int(ends[first:last].max())])
    return found[:MOST_RANGES]
