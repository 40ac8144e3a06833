"""Tables of implementations, ranges, kernels, shapes, passes and many runs; the timeline."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from analyzers.records import number
from analyzers.verdicts.verdict import PACED
from profkit.report.layout import Column, Table, code, column
from profkit.report.messages import bound, bound_word, of_roof, say, translated
from profkit.report.names import names_of, short_name
from profkit.report.sections.answer import called, far, many, per
from profkit.report.sections.method import counted
from roofline import units

if TYPE_CHECKING:
    from analyzers.timeline.budget import Budget
    from analyzers.verdicts.statistics import Ratio
    from profkit.rundir.manifest import Impl
    from profkit.study.study import Part, Study

TOP_RANGES, TOP_KERNELS, TOP_THREADS = 24, 12, 4
MANY_ALIKE = 3
"""Number of ranges that differ only in digits from which they become one row."""
LEAST_HOLE = 0.005
"""Smallest share of the wall time for a row of idle time."""
_Rows = Sequence[Mapping[Any, Any]]


def parts_table(study: Study, *, first_screen: bool = False) -> Table:
    """One row per implementation or range; no rows for a single undeclared range.

    first_screen: with the distance to the lower bound, without what is behind it.
    """
    if not study.manifest.impls:
        return _ranges_table(study)
    rows: _Rows = [part.row or {} for part in study.ranked]
    names = [_of_file(study, part) if first_screen else part.name for part in study.ranked]
    columns = [
        Column("", names),
        *_judged([(study, one) for one in study.ranked]),
        column(say("time"), rows, "time", "s"),
    ]
    if not first_screen:
        return Table.of([*columns, *placed_columns(rows)])
    columns += [
        Column(say("x_lower_bound"), [far(row) for row in rows]),
        Column(say("js_frac"), [of_roof(row) for row in rows]),
        Column(say("bound_by"), [bound(row) or units.MISSING for row in rows]),
    ]
    return Table.of(columns)


def _of_file(study: Study, part: Part) -> str:
    """Name, and the file if its name differs."""
    file = PurePath(part.impl.file) if part.impl is not None else PurePath()
    own = file.stem in ("", part.name)
    return called(study, part.name) if own else say("p_of_file", name=part.name, file=file.name)


def share_head(study: Study) -> str:
    """Message that names what the shares of kernels and ranges are of."""
    if study.manifest.impls:
        return "own_share"
    if study.stepwise:
        return "program_share" if study.filtered else "kernel_share"
    return "op_share" if study.of_operators else "gpu_share"


def _judged(pairs: Sequence[tuple[Study, Part]]) -> list[Column]:
    """Correctness and speed of each implementation; the verdict where neither counts."""
    words = [verdict.word if (verdict := study.verdicts.get(part.name)) is not None else "" for study, part in pairs]
    known = [
        translated(word) if word in ("void", "impossible") else correctness(part.impl)
        for word, (_, part) in zip(words, pairs, strict=True)
    ]
    speeds = [speedup(part.row) for _, part in pairs]
    return [Column(say("correct"), known, 2), Column(say("speedup"), speeds, 1)]


def _ranges_table(study: Study) -> Table:
    """Ranges of a record, or of a step with the inner ones; of a step alike names are one row."""
    inside, found = study.in_ranges, list[tuple[str, float, float, "Part | None"]]()
    if study.stepwise:
        parts = {part.name: part for part in study.parts}
        whole = float(study.step["time"][study.step["kind"] == "kernel"].sum()) or math.nan
        for name, paths in _alike(inside) if study.analysis.works or set(inside) - {""} else ():
            time, count = (sum(inside[path][at] for path in paths) for at in (0, 1))
            found.append((name, time, count, parts.get(paths[0]) if len(paths) == 1 else None))
        found.sort(key=lambda one: (-round(one[1], 12), one[0].count("/"), one[0]))
        heads = per(study, "col_kernels"), per(study, "col_time"), say("kernel_share")
    else:
        hot = study.hottest
        whole = float(hot["time"].iloc[0] / hot["share"].iloc[0]) if "share" in hot and len(hot) else math.nan
        for part in _longest(study):
            row = part.row or {}
            found.append((part.name, number(row, "time"), number(row, "kernels"), part))
        heads = say("op_calls" if study.by_operator else "js_launches"), say("time"), say(share_head(study))
    found = found[:TOP_RANGES]
    rows: _Rows = [(part.row if part is not None else None) or {} for *_, part in found]
    times: _Rows = [{"time": time, "share": time / whole} for _, time, _, _ in found]
    return Table.of(
        [
            Column(say("range"), [name or say("no_range") for name, *_ in found]),
            Column(heads[0], [many(count) for _, _, count, _ in found], 5),
            column(heads[1], times, "time", "s"),
            column(heads[2], times, "share", "%", 1),
            *_declared(study, [part.name if part is not None else "" for *_, part in found], rows),
            *placed_columns(rows),
        ]
    )


def _alike(paths: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """(name, ranges); many names that differ only in digits become one, "Step #"."""
    kinds: dict[str, list[str]] = {}
    for path in paths:
        kinds.setdefault(re.sub(r"\d+", "#", path), []).append(path)
    for kind, mine in kinds.items():
        yield from [(kind, mine)] if len(mine) >= MANY_ALIKE else [(path, [path]) for path in mine]


def echoes(study: Study) -> set[str]:
    """Ranges with the same time and kernels as their parent."""
    rows = {part.name: part.row or {} for part in study.parts if part.impl is None}

    def same(name: str) -> bool:
        around = rows.get(name.rpartition("/")[0]) if "/" in name else None
        return around is not None and all(rows[name].get(key) == around.get(key) for key in ("time", "kernels"))

    return {name for name in rows if name not in study.declared and same(name)}


def _longest(study: Study) -> list[Part]:
    """The longest of several ranges, in the run's order."""
    if len(study.parts) < 2 and not study.analysis.works:
        return []
    own = [part for part in study.parts if part.name not in echoes(study)]
    longest = sorted(own, key=lambda part: -number(part.row or {}, "time"))[:TOP_RANGES]
    return [part for part in own if part in longest]


def _declared(study: Study, names: Iterable[str], rows: _Rows) -> Iterator[Column]:
    """Work that a program declared for its ranges, and their distance to its lower bound."""
    if not study.declared:
        return
    known = [study.declared.get(name) for name in names]
    flops = [{"flops": sum(one.flops.values()) if one is not None and one.flops else math.nan} for one in known]
    moved = [{"bytes": math.nan if one is None or one.bytes is None else one.bytes} for one in known]
    yield column(say("declared"), flops, "flops", "FLOP", 6)
    yield column(say("declared"), moved, "bytes", "B", 6)
    yield column(say("x_lower_bound"), rows, "lower_bound_ratio", "", 3)


def placed_columns(rows: _Rows) -> list[Column]:
    """Columns of the placement under the ceilings; intensity by DRAM bytes."""
    own = [{**row, "intensity": row.get("intensity", row.get("intensity_dram", math.nan))} for row in rows]
    return [
        column(say("achieved"), rows, "achieved_flops", "FLOP/s", 4),
        column("DRAM", rows, "dram_bandwidth", "B/s", 5),
        column(say("js_dramf"), rows, "dram_fraction", "%", 5),
        column("FLOP/B", own, "intensity", "", 6),
        Column(say("js_frac"), [of_roof(row) for row in rows], 3),
        Column(say("bound_by"), [bound_word(row) or units.MISSING for row in rows], 2),
    ]


def correctness(impl: Impl | None) -> str:
    """ "yes (5/5)", the kind of error, or "reference"; a dash for a range."""
    if impl is None:
        return units.MISSING
    if impl.role == "reference":
        return say("reference") if impl.ok else translated(impl.status)
    if impl.role == "callable":
        return say("not_checked")
    passed = sum(check.passed for check in impl.checks)
    if not impl.ok:
        return translated(impl.status)
    return say("passed", passed=str(passed), count=str(len(impl.checks)))


def speedup(row: Mapping[str, Any] | None) -> str:
    """ "1.23x [1.21, 1.25]"; a dash for the reference and the unmeasured."""
    if row is None or not math.isfinite(number(row, "speedup")) or row["verdict"] not in (*PACED, "inconclusive"):
        return units.MISSING
    return spelled(*(float(row[name]) for name in ("speedup", "speedup_low", "speedup_high")))


def spelled(value: float, low: float, high: float) -> str:
    """ "1.23x [1.21, 1.25]" with up to five digits to tell both ends apart, else no interval."""
    for places in (3, 4, 5):
        ends = units.digits(low, places), units.digits(high, places)
        if ends[0] != ends[1]:
            return f"{units.digits(value, places)}x [{ends[0]}, {ends[1]}]"
    return f"{units.digits(value)}x"


def overview(studies: Sequence[Study]) -> Table:
    """One row per candidate of many runs, each time in its own unit."""
    pairs = [(study, part) for study in studies for part in study.parts]
    rows: _Rows = [part.row or {} for _, part in pairs]
    return Table.of(
        [
            Column("sample", [study.manifest.sample.id for study, _ in pairs]),
            Column("candidate", [part.name for _, part in pairs]),
            *_judged(pairs),
            Column(say("time"), [units.text(number(row, "time"), "s") for row in rows]),
            Column(say("x_lower_bound"), [far(row) for row in rows], 3),
            *placed_columns(rows),
        ]
    )


def shapes_table(study: Study) -> Table:
    """Speed-ups by shape with geometric mean; no rows for a single shape."""
    shapes = study.shapes
    if not shapes:
        return Table([], [])
    means = study.over_shapes
    names = [impl.name for impl in study.manifest.candidates if any(impl.name in one.ratios for one in shapes)]
    rows = [["; ".join(one.inputs), *(ratio_text(one.ratios.get(name)) for name in names)] for one in shapes]
    rows.append([say("weighted" if study.weighted else "geomean"), *(ratio_text(means.get(name)) for name in names)])
    if (served := study.manifest.served) is None or not study.weighted:
        return Table([say("inputs"), *names], rows)
    shares = [*(units.percent(one / sum(served.shares)) for one in served.shares), ""]
    told = [[row[0], share, *row[1:]] for row, share in zip(rows, shares, strict=True)]
    return Table([say("inputs"), say("of_calls"), *names], told)


def passes_table(study: Study) -> Table:
    """Times and speed-ups by pass; no rows without gradients."""
    passes = study.passes
    if not passes:
        return Table([], [])
    names = [impl.name for impl in study.manifest.candidates if any(impl.name in one.ratios for _, one in passes)]
    columns = [Column(say("pass"), [say(f"pass_{name}") for name, _ in passes])]
    for who in ("reference", *names):
        times = [units.text(one.times[who], "s") if who in one.times else "" for _, one in passes]
        columns.append(Column(say(who) if who == "reference" else who, times))
        if who != "reference":
            columns.append(Column(say("speedup"), [ratio_text(one.ratios.get(who)) for _, one in passes]))
    return Table.of(columns)


def ratio_text(one: Ratio | None) -> str:
    """ "1.23x [1.21, 1.25]"; a dash if unknown."""
    known = {} if one is None else {"speedup": one.value, "speedup_low": one.low, "speedup_high": one.high}
    return speedup({**known, "verdict": "inconclusive"})


# ---- kernels, idle times, the timeline


def kernels_table(study: Study, of: Sequence[str] = (), *, spans: bool = False) -> Table:
    """Longest kernels of each implementation or of all ranges; `spans`: names as code spans."""
    kernels = study.hottest
    if study.manifest.impls and len(kernels):
        kernels = kernels[kernels["impl"].isin(of)] if of else kernels
        kernels = kernels.groupby("impl", sort=False, group_keys=False).head(TOP_KERNELS)
    else:
        # What runs in no step is not among those of a step.
        stepwise = "step_time" in kernels and not study.filtered
        kernels = (kernels[kernels["step_time"] > 0] if stepwise else kernels).head(TOP_KERNELS)
    rows: _Rows = kernels.to_dict("records")
    told = names_of(rows if study.manifest.impls else [{**row, "impl": ""} for row in rows])
    owners = [str(row["impl"]) or say("no_range") for row in rows]
    owner = say("implementation" if study.manifest.impls else "range")
    return Table.of(
        [
            Column(
                say("op_operator") if study.by_operator else "kernel", [code(name) for name in told] if spans else told
            ),
            Column(owner, [] if set(owners) == {say("no_range")} else owners, 4),
            *_amounts(study, rows),
            *placed_columns(rows),
        ]
    )


def _amounts(study: Study, rows: _Rows) -> list[Column]:
    """Count, time and share: per step of a program, else of the record."""
    share = column(say(share_head(study)), rows, "share", "%", 1)
    if not study.stepwise:
        counts = [units.count(number(row, "launches")) for row in rows]
        calls = Column(say("op_calls" if study.by_operator else "js_launches"), counts, 4)
        return [calls, share, column(say("op_own" if study.of_operators else "time"), rows, "time", "s")]
    of_wall = say("wall_share") if study.filtered else per(study, "col_wall")
    return [
        Column(per(study, "col_launches"), [many(number(row, "step_launches")) for row in rows], 4),
        share,
        column(of_wall, rows, "wall_share", "%", 2),
        column(per(study, "col_time"), rows, "step_time", "s"),
    ]


def kernel_note(study: Study) -> str:
    """Origin of a sample's kernel figures; "" without counters."""
    if not study.manifest.impls or not counted(study):
        return ""
    kernels = study.kernels
    several = "call_time" in kernels and bool((kernels["call_time"].notna() & (kernels["share"] < 1)).any())
    return say("kernel_note") + (say("kernel_note_share") if several else "")


def holes_tables(study: Study) -> list[Table]:
    """Largest idle times of a step by host activity, one table per process and device."""
    return [table for one in study.budgets.values() if (table := _holes(study, one)).rows]


def _holes(study: Study, one: Budget) -> Table:
    told = [hole for hole in one.named if hole.seconds >= LEAST_HOLE * one.window]
    rows: _Rows = [{"time": hole.seconds / one.parts, "share": hole.seconds / one.window} for hole in told]
    between = [f"{short_name(hole.after, 40)} -> {short_name(hole.before, 40)}" for hole in told]
    return Table.of(
        [
            Column(say("hole_why"), [say(f"wall_{hole.cause}") for hole in told]),
            column(per(study, "col_idle"), rows, "time", "s"),
            column(per(study, "col_wall"), rows, "share", "%", 1),
            Column(per(study, "col_times"), [many(hole.count / one.parts) for hole in told], 2),
            Column(say("hole_between"), between, 3),
            Column(say("hole_doing"), [hole.doing or say("hole_unnamed") for hole in told]),
        ]
    )


def thread_lines(study: Study) -> Iterator[str]:
    """Each thread's share of the time in operators, and waits for data."""
    frame, host = study.captured.timeline, study.host
    if frame is None or host is None or not study.of_operators:
        return
    span = float((frame["start"] + frame["time"]).max() - frame["start"].min())
    for thread, busy in frame.groupby("stream", observed=True)["time"].sum().nlargest(TOP_THREADS).items():
        shares = {"busy": units.percent(float(busy) / span), "rest": units.percent(1 - float(busy) / span)}
        yield say("op_thread", thread=str(thread), span=units.text(span, "s"), **shares)
    ranges = host[host["kind"] == "range"]
    loading = float(ranges["time"][ranges["call"].astype(str).str.startswith("enumerate(DataLoader)")].sum())
    if loading:
        yield say("op_loading", time=units.text(loading, "s"), share=units.percent(loading / span))
