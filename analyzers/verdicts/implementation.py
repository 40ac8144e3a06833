"""One implementation: its time, work, place on the roofline and lower bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pandas as pd

from analyzers.counts import as_counters
from analyzers.lower_bound import LowerBound, Work, below, combine, gate, lower_bound_time
from analyzers.pipes import LEVELS, PIPES, TENSOR, keeps
from analyzers.placement import place
from analyzers.records import rows_of, tables
from analyzers.verdicts import timing
from analyzers.verdicts.speedup import SLACK
from analyzers.verdicts.statistics import Ratio
from collectors.caveat import Caveat
from roofline.ceilings import Roofline

NAN = math.nan

IMPL_COLUMNS = tuple(tables("columns.toml")["impls"])
"""Columns of Analysis.impls, see columns.toml."""
UNBOUND = LowerBound()


@dataclass
class Part:
    """Facts of an implementation before placement: times, work and lower bounds.

    row: its columns from times. hardware: the counted work. least: the declared or modelled work. Bounds: of the `task`
    (None: unusable), in its `own` precision, and of its `counted` work. beaten: it is faster than the modelled FLOP
    allow, which are then the reference's, not the task's. precision: of its answers, "" if not measured.
    """

    row: dict[str, Any]
    hardware: Work | None
    least: Work | None
    caveats: list[Caveat]
    task: LowerBound | None = None
    own: LowerBound = UNBOUND
    counted: LowerBound = UNBOUND
    beaten: bool = False
    precision: str = ""

    @property
    def placed(self) -> Work | None:
        """The least work on the pipe that did it; only its bytes if it beats the modelled FLOP."""
        if self.least is None:
            return None
        return _by_bytes(self.least) if self.task is not None and self.beaten else _on_pipe_seen(self.least, self)


def part(
    name: str,
    timed: timing.Timed | None,
    counted: tuple[Mapping[Any, Any] | None, Work | None],
    works: Sequence[Work],
) -> Part:
    """Part with caveats about its counts. counted: row of counts.add_up, and counted work."""
    given = {work.source: work for work in works}
    added, hardware = counted
    row = _time_row(name, timed, added)
    least = combine(given.get("declared"), given.get("modelled"))
    return Part(row, hardware, least, _slower_when_counted(row))


def bind(parts: Sequence[Part], roofline: Roofline, l2_bytes: float) -> None:
    """Set the lower bounds of every implementation with a work; a task has one bound.

    A unit of the same precision lowers the task's bound once an implementation has used it (fp64 on tensor cores). A
    lower precision gives that implementation its own bound.
    """

    def bound(work: Work | None, one: Part) -> LowerBound:
        l2 = str(one.row["l2"])
        return UNBOUND if work is None else lower_bound_time(work, roofline, l2_bytes=l2_bytes, l2=l2)

    best: dict[Any, LowerBound] = {}
    known = [(one, one.least) for one in parts if one.least is not None]
    bounded = [(one, least, (least.source, least.bytes, *least.flops.items())) for one, least in known]
    for one, least, task in bounded:
        seen = _on_pipe_seen(least, one)
        one.own, one.counted = bound(seen, one), bound(one.hardware, one)
        held = best.get(task, lower_bound_time(least, roofline))
        best[task] = one.own if _bits(seen) >= _bits(least) and one.own.time < held.time else held
        bytes_, time = bound(_by_bytes(least), one), one.row["time"]
        one.beaten = least.source == "modelled" and one.own.forbids(time) and not bytes_.forbids(time)
        if one.beaten:
            best[task] = bytes_
    for one, _, task in bounded:
        one.task = best[task]


def _by_bytes(work: Work) -> Work:
    return msgspec.structs.replace(work, flops=dict.fromkeys(work.flops, NAN))


def _bits(work: Work) -> tuple[int, ...]:
    """Significand and exponent bits of the pipe with most of the FLOP; () without any."""
    return keeps(max(work.flops, key=lambda name: work.flops[name], default=""))


def withdrawn(reference: Part) -> Caveat | None:
    """Caveat that the reference beats the lower bound, which is then withdrawn."""
    time, own = reference.row["time"], reference.own
    if not time < own.time * (1 - SLACK) or own.bound_by == "launch":
        return None
    return Caveat(
        f"the lower bound is withdrawn: the reference goes below it (set by {own.bound_by})",
        f"{time:.4g} s measured, lower bound {own.time:.4g} s",
        "check get_work() or the work model, skipped work, and data that stayed in L2",
        WITHDRAWN,
    )


WITHDRAWN = "lower-bound-withdrawn"
"""Code of the caveat about a lower bound that the reference beats."""


def lower_bound_row(one: Part) -> dict[str, Any]:
    """Columns of a lower bound, {} without one; a time below it adds a caveat."""
    if one.least is None or one.task is None:
        return {}
    time, moved = one.row["time"], one.hardware.bytes if one.hardware is not None else NAN
    bound = one.own.time if below(one.own.time, one.task.time) else one.task.time
    warning = gate(time, one.own, one.row["impl"])
    if one.beaten:
        warning = Caveat(
            f"{one.row['impl']}: faster than the reference's FLOP allow: the lower bound is by bytes only",
            f"{time:.4g} s measured, {one.own.hard:.4g} s for the modelled FLOP",
            "another algorithm or skipped work: count with --ncu",
        )
    if warning is not None:
        one.caveats.append(warning)
    return {
        "lower_bound_time": one.task.time,
        "lower_bound_bound_by": one.task.bound_by,
        "lower_bound_own_time": one.own.time,
        "lower_bound_own_bound_by": one.own.bound_by,
        "lower_bound_hard": one.own.hard,
        "counted_hard": one.counted.hard,
        "lower_bound_ratio": time / bound if bound > 0 else NAN,
        "impossible": one.own.forbids(time) and not one.beaten,
        "compulsory_bytes": one.least.bytes,
        "compulsory_ratio": moved / one.least.bytes if one.least.bytes > 0 else NAN,
    }


def _time_row(name: str, timed: timing.Timed | None, added: Mapping[Any, Any] | None) -> dict[str, Any]:
    counts = added or {}
    busy, tool = float(counts.get("time", NAN)), str(counts.get("tool", ""))
    row: dict[str, Any] = {
        "impl": name,
        "kernels": float(counts.get("launches", NAN)),
        "counted_time": busy,
        "kernel_time": NAN,
        "time": busy,
        "method": tool,
        "l2": "",
    }
    if timed is not None:
        s = timed.spread
        row |= {
            "time": s.median,
            "time_low": s.low,
            "time_high": s.high,
            "n": s.n,
            "method": timed.method,
            "l2": timed.l2,
            "host_time": timed.host,
        }
    return row


def placed(parts: Sequence[Part], added: pd.DataFrame, roofline: Roofline) -> list[dict[str, Any]]:
    """Place each implementation under the ceilings by its counters, else by the work model."""
    names = [one.row["impl"] for one in parts]
    frame = added.set_index("impl").reindex(names)
    text = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
    frame[text] = frame[text].fillna("")
    filled = [_filled(one.hardware, one.placed) for one in parts]
    model = pd.DataFrame([given for given, _ in filled], index=frame.index)
    for name in model:
        frame[name] = model[name].combine_first(frame[name]) if name in frame else model[name]
    frame["time"] = [one.row["time"] for one in parts]
    rows = rows_of(place(frame, roofline))
    return [_place_row(one, row, source) for one, row, (_, source) in zip(parts, rows, filled, strict=True)]


def _place_row(one: Part, values: Mapping[Any, Any], source: str) -> dict[str, Any]:
    """Columns of a placement; achieved and attainable FLOP/s are of the task's operations."""
    row = one.row
    found = {name: values[name] for name in IMPL_COLUMNS if name in values and name not in row}
    found |= {
        "counted_flops": found.get("flops", NAN) if one.hardware is not None else NAN,
        "bytes": values.get(LEVELS["dram"], NAN),
        "intensity": values.get("intensity_dram", NAN),
        "work_source": source,
        "shares": {name: values.get(f"{name}_fraction", NAN) for name in LEVELS}
        | {str(values["compute"]): values.get("compute_fraction", NAN)},
    }
    if (least := one.placed) is not None and least.total > 0:
        flops, moved = least.total, found["bytes"]
        achieved = flops / row["time"] if row["time"] > 0 else NAN
        found |= {
            "flops": flops,
            "flops_lower": False,
            "achieved_flops": achieved,
            "intensity": flops / moved if moved > 0 else NAN,
            "attainable": achieved / found["attainable_fraction"] if found.get("attainable_fraction", 0) > 0 else NAN,
        }
    return found


def _filled(hardware: Work | None, least: Work | None) -> tuple[dict[str, float], str]:
    """Counter columns from the work model, and the source of both."""
    if hardware is None or least is None:
        return (as_counters(least), least.source) if least is not None else ({}, "counted" if hardware else "")
    model = as_counters(least)
    moved = {LEVELS["dram"]: model.pop(LEVELS["dram"])}
    missing = (model if math.isnan(hardware.total) else {}) | (moved if math.isnan(hardware.bytes) else {})
    return missing, f"counted, {least.source}" if missing else "counted"


def _slower_when_counted(row: Mapping[str, Any]) -> list[Caveat]:
    """Caveat that the counted launches are slower than the timed ones."""
    if "n" not in row or not row["counted_time"] > 1.25 * row["time"] + 2e-6 * row["kernels"]:
        return []
    return [
        Caveat(
            f"{row['impl']}: its kernels took longer during counting",
            f"{row['counted_time']:.4g} s counted, {row['time']:.4g} s timed",
            "check for a lower clock or colder cache under the tool, or launches of several calls",
        )
    ]


def _on_pipe_seen(least: Work, one: Part) -> Work:
    """The least work on the pipe that did it, by counters or by the answers' precision."""
    hardware = one.hardware
    if not least.total > 0:
        return least
    if hardware is not None and hardware.total > 0:
        seen = max(hardware.flops, key=lambda name: hardware.flops[name])
    else:
        # FP32 has no tensor pipe.
        seen = TENSOR + one.precision if TENSOR + one.precision in PIPES else one.precision
        if not () < keeps(seen) < _bits(least):
            return least
    if seen in least.flops:
        return least
    return Work({seen: least.total}, least.bytes, least.source, least.written)


def compared(
    name: str,
    row: Mapping[str, Any],
    ratio: Ratio | None,
    reference: str,
    before: Sequence[Mapping[str, Any]],
    clocks: str = "",
) -> dict[str, Any]:
    """Speed-up, the verdict of its interval (`pace`), and with the lower bound.

    Times by a counting tool only give a ratio without an interval. clocks: results of two clocks that disagree.
    """
    base = next((other for other in before if other["impl"] == reference), None) if reference else None
    found: dict[str, Any] = {"verdict": ""}
    if reference and name == reference:
        found = {"speedup": 1.0, "speedup_low": 1.0, "speedup_high": 1.0, "verdict": "reference"}
    elif reference and ratio is not None:
        pace = "inconclusive" if clocks else ratio.verdict
        found = {"speedup": ratio.value, "speedup_low": ratio.low, "speedup_high": ratio.high}
        found |= {"processes": ratio.processes, "within": ratio.within}
        found |= {"rounds": ratio.n, "pace": pace, "clocks": clocks, "verdict": pace}
    elif base is not None:
        same = base["method"] == row["method"]
        found = {
            "speedup": base["time"] / row["time"] if same else NAN,
            **dict.fromkeys(("pace", "verdict"), "inconclusive"),
        }
    return found | ({"verdict": "impossible"} if row.get("impossible", False) else {})
