"""Data of a page: for its script (NaN is null, six digits) and its templates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from analyzers.kernels.source_lines import Line
from analyzers.records import number
from analyzers.rules.rule import COLLECT, TIME, Finding
from analyzers.rules.subjects import WHOLE
from analyzers.timeline.budget import Budget
from analyzers.waterfall import LOWER_BOUND, SLICE_KINDS
from profkit.report import explain
from profkit.report.explain import MINOR, gain, headline, in_order, proof, unchecked, unexplained, worded
from profkit.report.layout import cut
from profkit.report.messages import bound, catalogue, in_each, named, say
from profkit.report.names import short_name, short_names
from profkit.report.sections import answer, method
from profkit.report.sections.tables import share_head
from profkit.report.waterfall import Block, blocks, lower_bound_line, wall_blocks
from profkit.study.study import Study
from roofline import units
from roofline.ceilings import BANDWIDTH
from roofline.figure.style import places, shape

LONGEST_NAME = 300
"""Most characters of a kernel's name on the page; thousands of template names fill megabytes."""
MOST_SAMPLES = 600
TOP, MOST_FINDINGS = 3, 20
"""Findings of the winner shown in full, and findings on the page; the others are folded."""

Values = dict[str, Any]
"""Template variables."""
Kernels = Sequence[Mapping[str, Any]]
"""Kernel rows of the page's script."""


@dataclass(frozen=True)
class Shown:
    """A part of a run on a page, its label and colour index."""

    study: Study
    impl: str
    label: str
    colour: int
    on: bool = True


def shown_of(study: Study) -> list[Shown]:
    """Parts of one run by rank; only best and reference are switched on, or all of a program."""
    names = list(dict.fromkeys([*(part.name for part in study.parts), *in_order(study)]))
    first = (study.best.name if study.best is not None else "", study.analysis.reference)
    on = {name: not study.manifest.impls or name in first for name in names}
    unnamed = say("no_range") if len(names) > 1 else ""
    colours, ranked = places(names), dict.fromkeys([*(part.name for part in study.ranked), *names])
    return [Shown(study, name, name or unnamed, colours[name], on[name]) for name in ranked]


def data_of(parts: Sequence[Shown], *, best: str = "") -> dict[str, Any]:
    """Data of parts of one or several runs; `best`: the label drawn in front."""
    by_path = {part.study.path: part.study for part in parts}
    first = next(iter(by_path.values()), None)
    told = {path: _kernels(study) for path, study in by_path.items()}
    kernels = [{"impl": part.label, **row} for part in parts for row in told[part.study.path].get(part.impl, ())]
    lower_bounds = _lower_bounds(first) if first is not None else []
    pipes = list(dict.fromkeys(one["pipe"] for one in (*kernels, *lower_bounds) if one["pipe"]))
    found = [first.roofline.get(name) for name in dict.fromkeys([*BANDWIDTH, *pipes])] if first is not None else []
    heads: dict[str, list[str]] = {}
    if first is not None and not first.manifest.impls:
        # What the script says of these kernels instead of its own words.
        keys = {"share": share_head(first), "of_time": "of_gpu_time"}
        if by_step(first):
            keys |= {"launches": "col_launches", "time": "col_time", "of_time": "of_kernel_time"}
            keys = {name: key if name == "share" else key + answer.ending(first) for name, key in keys.items()}
        if first.by_operator:
            keys |= {"kernel": "op_operator", "count": "op_count", "launches": "op_calls"}
        if first.of_operators:
            keys |= {"time": "op_own", "of_time": "op_of_time"}
        heads = {name: list(catalogue().say[key]) for name, key in keys.items()}
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
    """Kernels of each part, in one pass over all ranges; an uncounted call is one row."""
    kernels, first = study.kernels, named_first(study)
    if not len(kernels) and study.manifest.impls:
        kernels = study.calls
    if first:
        step = study.step[study.step["kind"] == "kernel"]
        own = step.groupby(["range", "name"], sort=False, observed=True)[["time", "count"]].sum()
        own = own.set_axis(["time", "launches"], axis=1).rename_axis(["impl", "kernel"]).reset_index()
        own = own.assign(share=own["time"] / own["time"].sum())[own["time"] > 0]
        kernels = kernels.drop(columns=["time", "launches", "share"]).merge(own, on=["impl", "kernel"])
    elif not study.manifest.impls and "share" in study.hottest:
        # Of the whole, like all that stands beside them.
        whole = study.hottest.set_index("kernel")
        kernels = kernels.assign(share=kernels["time"] * kernels["kernel"].map(whole["share"] / whole["time"]))
    waits = {(impl, kernel): found for impl, kernel, found in explain.by_kernel(study.lines)}
    told: dict[str, list[dict[str, Any]]] = {}
    for impl, part in kernels.groupby("impl", sort=False, observed=True) if len(kernels) else ():
        names = [*map(str, part["kernel"])]
        short = short_names([*first, *names])
        rows = zip(part.to_dict("records"), names, strict=True)
        told[str(impl)] = [_kernel(row, short[name], waits.get((str(impl), name), ())) for row, name in rows]
    return told


def named_first(study: Study) -> list[str]:
    """Kernels of a step in the order in which equal short names are numbered."""
    return [str(name) for name in study.step["name"][study.step["kind"] == "kernel"].unique()] if by_step(study) else []


def by_step(study: Study) -> bool:
    """Whether kernel figures are per step of the timeline."""
    frame, launches = study.captured.timeline, study.launches
    if not study.stepwise or frame is None or launches is None or not len(launches):
        return False
    return bool(launches["tool"].iloc[0] == frame["tool"].iloc[0] and launches["impl"].isin(frame["range"]).all())


def _kernel(row: Mapping[Any, Any], short: str, found: Sequence[Line] = ()) -> dict[str, Any]:
    """Values of a kernel, with sentences about its source lines if recorded."""
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
    """A kernel's name on the page, cut."""
    return cut(kernel.replace("`", "'"), LONGEST_NAME)


def six(value: float) -> float | None:
    """Round to six digits; None for a value that is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _lower_bounds(study: Study) -> list[dict[str, Any]]:
    told = [(at, pipe, study.roofline.attainable(at, pipe)) for at, pipe in method.lower_bounds(study)]
    return [{"ai": six(at), "flops": six(top), "pipe": pipe} for at, pipe, top in told if math.isfinite(top)]


def samples_of(parts: Sequence[Shown]) -> list[dict[str, Any]]:
    """Samples behind the parts' times, thinned evenly if too many."""
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


# ---- where the time goes


def _bars(
    mine: Sequence[Block], whole: float, found: Sequence[Finding], kernels: Kernels, part: str = ""
) -> list[Values]:
    """Blocks in percent of `whole` [s], with the row numbers of their kernels of `part`."""
    rows = {row["kernel"]: at for at, row in reversed(list(enumerate(kernels))) if part in ("", row["impl"])}
    ids = _ids(found)
    return [
        {
            "paint": one.paint,
            "label": one.label(),
            "why": one.why(),
            "left": f"{max(0.0, one.top - one.seconds) / whole:.3%}",
            "width": f"{one.seconds / whole:.3%}",
            "seconds": units.text(one.seconds, "s"),
            "share": units.percent(one.share(whole)),
            "kernel": rows.get(page_name(one.kernel), -1) if one.kernel else -1,
            "finding": ids.get(id(one.finding), ""),
        }
        for one in mine
    ]


def _ids(found: Sequence[Finding]) -> dict[int, str]:
    return {id(one): f"f{at}" for at, one in enumerate(found)}


def falls_of(
    parts: Sequence[Shown], head: str, kernels: Kernels, found: Sequence[Finding] = (), *, open_: int = 0
) -> Iterator[Values]:
    """Waterfalls of parts below the `head`; `open_`: the one shown first."""
    longest = max((part.study.waterfalls[part.impl].time for part in parts), default=math.nan)
    for at, part in enumerate(parts):
        mine, time = blocks(part.study, part.impl, found), part.study.waterfalls[part.impl].time
        kinds = {kind: sum(one.seconds for one in mine if one.kind == kind) for kind in SLICE_KINDS}
        kinds = {kind: seconds for kind, seconds in kinds.items() if seconds > 0}
        yield {
            "part": part.label,
            "head": head,
            "line": lower_bound_line(part.study, part.impl),
            "time": units.text(time, "s"),
            "bars": _bars(mine, time, found, kernels, part.label),
            "kinds": tuple(kinds),
            "stack": [
                (
                    kind,
                    f"{seconds / longest:.3%}",
                    say("p_stack", kind=say(f"fall_{kind}"), time=units.text(seconds, "s")),
                )
                for kind, seconds in kinds.items()
            ],
            "open": at == open_,
        }


def wall_of(
    budget: Budget, head: str, line: str, found: Sequence[Finding] = (), whole: str = "", kernels: Kernels = ()
) -> Values:
    """Waterfall of a program's step; `whole`: the `impl` of findings about it."""
    bars = _bars(wall_blocks(budget, whole, found), budget.step, found, kernels)
    return {"head": head, "line": line, "time": units.text(budget.step, "s"), "bars": bars}


def walls_of(study: Study, found: Sequence[Finding], kernels: Kernels) -> Iterator[Values]:
    """Waterfalls of a program's steps, one per process and device."""
    lines, head = iter(answer.wall_time(study)), answer.per(study, "p_one")
    for name, one in study.budgets.items():
        if one.window > 0:
            yield wall_of(one, head, next(lines), found, name or WHOLE, kernels)


def shares_of(mine: Sequence[Block], whole: float) -> list[Values]:
    """Time [s] by kind, in the order of the waterfall's blocks."""
    sums: dict[tuple[str, str], float] = {}
    for one in reversed(mine):
        label = one.label() if one.of_step or one.kind == LOWER_BOUND else say(f"fall_{one.kind}")
        sums[one.paint, label] = sums.get((one.paint, label), 0.0) + one.seconds
    return [share(*key, seconds, units.percent(seconds / whole)) for key, seconds in sums.items()]


def share(paint: str, label: str, seconds: float, of: str) -> Values:
    """A kind of time on the bar of the first screen."""
    return {"paint": paint, "label": label, "time": units.text(seconds, "s"), "share": of}


# ---- findings


def findings_of(study: Study, found: Sequence[Finding]) -> Iterator[Values]:
    """Findings of each part in rank order; those of a program together."""
    parts = [(name, headline(study, name), [one for one in found if one.impl == name]) for name in in_order(study)]
    if study.best is None:
        parts = [("", next(iter(answer.wall_time(study)), ""), list(found))]
    ids = _ids(found)
    for at, (name, head, mine) in enumerate(parts):
        every = [one for one in mine if one.severity != COLLECT]
        # Last those whose win the findings before them claim.
        large = [one for one in every if not one.ratio < MINOR]
        large.sort(key=lambda one: one.severity == TIME and one.win <= MINOR * one.upper_bound)
        large = large[:MOST_FINDINGS]
        told = [_finding(study, one, ids[id(one)]) for one in large]
        missing, command = unchecked(mine, study)
        yield {
            "name": name,
            "headline": head,
            "best": at == 0,
            "top": told[:TOP] if at == 0 else [],
            "rest": told[TOP:] if at == 0 else told,
            "smaller": len(every) - len(large),
            "unchecked": say("listed").join(map(named, missing)),
            "collect": command,
            "silent": explain.start_with(study) if study.of_operators else unexplained(mine),
        }


def _finding(study: Study, one: Finding, name: str) -> Values:
    """Texts of one finding; `own`: its gain beyond the findings above, if less."""
    title, then, expect = worded(one, study)
    ranged = study.best is None and len(study.parts) > 1 and one.impl not in ("", WHOLE)
    own = ""
    # Of a program the slice itself is claimed: its first finding says more than the others leave of it.
    if one.severity == TIME and one.win < 0.98 * one.upper_bound and not one.whole:
        own = say("p_own", time=units.text(one.win, "s")) if one.win > 0 else say("p_own_none")
    return {
        "id": name,
        "severity": one.severity,
        "gain": gain(one),
        "title": title,
        "step": then,
        "kernel": ", ".join([*([one.impl] if ranged else []), *([short_name(one.kernel)] if one.kernel else [])]),
        "full": cut(one.kernel, 300),
        "own": own,
        "evidence": say("semicolon").join(map(proof, one.evidence)),
        "expect": expect,
    }
