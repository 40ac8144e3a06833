"""What is said of a Study, once, for every writer: sentences and tables, without their form."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from posixpath import basename
from typing import TYPE_CHECKING, Any

from analyzers.records import number
from analyzers.rules.rule import TIME
from analyzers.verdict import PACED, brief
from collectors.doubt import SLOWED, TARGET_FAILED
from profkit.report import lines, units
from profkit.report.chinese import said_in
from profkit.report.explain import MINOR, NO_RANGE, ending, gain, runnable, worded
from profkit.report.layout import Column, Table, code, column, cut
from profkit.report.names import short_name, short_names
from profkit.report.words import bound_why, named, say

if TYPE_CHECKING:
    from analyzers.program import Budget
    from analyzers.statistics import Ratio
    from analyzers.timeline import Timeline
    from analyzers.verdict import Verdict
    from collectors.doubt import Doubt
    from profkit.rundir.manifest import Finding, Impl
    from profkit.study.study import Part, Study

TOP_RANGES = 24
MANY_ALIKE = 3
"""Ranges whose names differ in numbers alone, from which they are told as one."""
TOP_KERNELS = 12
LEAST_SLOWED = 0.01
"""Share of a step that recording it must have taken to be told."""
LEAST_HOLE = 0.005
"""Share of the wall time from which idle time of a kind is listed."""
TOP_FINDINGS = 3
_TOOLS = ("ncu", "nsys", "cupti", "nvprof", "trtexec")
_Rows = Sequence[Mapping[Any, Any]]


@dataclass(frozen=True)
class Section:
    """A heading of report.md with what stands below it: `note` above, then a list, tables, text to copy, `after`."""

    heading: str
    note: str = ""
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    block: str = ""
    after: str = ""


def device(study: Study) -> str:
    """The name of the device the run was made on."""
    return str(study.manifest.device.get("name", "unknown device"))


def title(study: Study) -> str:
    """What was measured, on what."""
    return f"{study.manifest.sample.id} on {device(study)}"


# ---- the first lines


def first_lines(study: Study, lang: str = "en") -> list[str]:
    """A sentence a candidate, the best first: its verdict, how long, how far, bound by what; of ranges how much ran, and
    the hottest.
    """
    reference = study.manifest.reference
    if reference is not None and not reference.ok:
        return [say("reference_failed", lang, status=reference.status, reason=brief(reference.reason))]
    if not study.manifest.impls:
        ran = _how_much(study, lang)
        failed = any(doubt.code == TARGET_FAILED for doubt in study.analysis.doubts)
        return [*wall_time(study, lang), say("cap_failed", lang, said=ran) if failed else ran]
    verdicts = study.verdicts
    said = [_sentence(part, part.impl, verdicts.get(part.name), lang) for part in study.ranked if part.impl is not None]
    nothing = "no_candidate" if reference is not None else "nothing_timed"
    return [line for line in said if line] or [say(nothing, lang)]


def _sentence(part: Part, impl: Impl, verdict: Verdict | None, lang: str) -> str:
    """ "" for the reference, of which there is nothing to judge."""
    if impl.role == "reference":
        return ""
    head = impl.name + say("colon", lang)
    if verdict is not None and not verdict.right:
        return head + verdict.text(lang)
    if part.row is None:
        return head + say("not_timed", lang)
    time, distance = units.text(float(part.row["time"]), "s"), _distance(part.row, lang)
    if verdict is None:
        return say("comma", lang).join([head + time, *distance])
    # Of a time that means nothing neither the distance to a floor nor correctness is said.
    sound = verdict.word not in ("void", "impossible")
    said = [say("is_correct", lang)] if sound else []
    far = distance if sound else []
    return head + say("comma", lang).join([*said, verdict.text(lang), say("takes", lang, time=time), *far])


def _distance(row: Mapping[str, Any], lang: str) -> list[str]:
    ratio, roof = float(row["floor_ratio"]), bound_why(row, lang)
    shown = f"{ratio:.3g}" if ratio < 1000 else units.digits(ratio)
    said = [say("times_floor", lang, ratio=shown)] if math.isfinite(ratio) else []
    return said + ([say("is_bound_by", lang, roof=roof)] if roof else [])


def wall_time(study: Study, lang: str = "en") -> list[str]:
    """Where the wall time of a program went in its steady state, a sentence a process and device."""
    within = study.manifest.window.range
    recorded = slowed(study)
    lines = (_budget(name, one, within, lang, slowed=recorded) for name, one in study.budgets.items())
    return [line for line in lines if line]


def slowed(study: Study) -> bool:
    """Whether recording a program took it time of its own."""
    return any(doubt.code == SLOWED for doubt in study.analysis.doubts)


def _budget(name: str, one: Budget, within: str, lang: str, *, slowed: bool) -> str:
    """The parts of the window, the largest first; those below a hundredth of it are left out. slowed: whether recording it
    took time of its own.
    """
    if not one.window > 0:
        return ""
    comma = say("comma", lang)
    causes = [
        (_why_idle(one, key, lang), getattr(one, key))
        for key in ("away", "host", "waiting", "allocating", "loading", "queued")
    ]
    why = comma.join(f"{text} {units.percent(v / one.window)}" for text, v in _large(causes, one.window))
    shares = [
        (say(f"wall_{key}", lang), getattr(one, key)) for key in ("computing", "communicating", "copying", "idle")
    ]
    idle = say("wall_idle", lang)
    told = [
        f"{text} {units.percent(v / one.window)}" + (say("wall_of_idle", lang, why=why) if text == idle and why else "")
        for text, v in _large(shares, one.window)
    ]
    took = units.text(one.step, "s")
    if slowed and one.step - one.least >= LEAST_SLOWED * one.step:
        took = say("as_recorded", lang, time=took)
    known = {"steps": str(one.steady.steps), "time": took, "range": within or spread(one, lang)}
    head = say({"all": "wall_whole", "range": "wall_range"}.get(one.steady.found, "wall_steps"), lang, **known)
    return (name + say("colon", lang) if name else "") + head + comma.join(told)


def spread(one: Budget, lang: str) -> str:
    """ "70.8 to 83.6 ms", of the steps; "" where nothing repeats."""
    if math.isnan(one.shortest):
        return ""
    unit, (low, high) = units.column([one.shortest, one.longest], "s")
    return say("spread", lang, low=low, high=high, unit=unit)


def holes_table(study: Study, one: Budget, lang: str = "en") -> Table:
    """The largest idle times of a step by what the host did in them, as far as it was recorded; no rows where none is."""
    told = [hole for hole in one.named if hole.seconds >= LEAST_HOLE * one.window]
    rows: _Rows = [{"time": hole.seconds / one.parts, "share": hole.seconds / one.window} for hole in told]
    if not rows:
        return Table([], [])
    between = [f"{short_name(hole.after, 40)} -> {short_name(hole.before, 40)}" for hole in told]
    unnamed = say("hole_unnamed", lang)
    return Table.of(
        [
            Column(say("hole_why", lang), [say(f"wall_{hole.cause}", lang) for hole in told]),
            column(per(study, "col_idle", lang), rows, "time", "s"),
            column(per(study, "col_wall", lang), rows, "share", "%", 1),
            Column(per(study, "col_times", lang), [many(hole.count / one.parts) for hole in told], 2),
            Column(say("hole_between", lang), between, 3),
            Column(say("hole_doing", lang), [hole.doing or unnamed for hole in told]),
        ]
    )


def holes_tables(study: Study, lang: str = "en") -> list[Table]:
    """That of each process and device that has one."""
    return [table for one in study.budgets.values() if (table := holes_table(study, one, lang)).rows]


def _holes(study: Study) -> Iterator[Section]:
    tables = holes_tables(study)
    if tables:
        yield Section(say("hole_title", "en"), say("hole_note", "en"), tables=tuple(tables))


def _why_idle(one: Budget, kind: str, lang: str) -> str:
    """What the GPU was idle for, and where if the host was away."""
    why = say(f"wall_{kind}", lang)
    if kind != "away" or not one.hole_before:
        return why
    doing = next((hole.doing for hole in one.named if hole.cause == kind), "")
    why = f"{why} [{cut(doing, 60)}]" if doing else why
    return say("wall_away_where", lang, away=why, before=short_name(one.hole_before))


def _large(parts: Sequence[tuple[str, float]], whole: float) -> list[tuple[str, float]]:
    return sorted((one for one in parts if one[1] >= 0.01 * whole), key=lambda one: -one[1])


def _step_work(study: Study, lang: str) -> str:
    """What a step launches, how long its kernels run, and the one that takes most of that."""
    step, ran = study.step, study.step[study.step["kind"] == "kernel"]
    counts = {str(kind): float(count) for kind, count in step.groupby("kind")["count"].sum().items()}
    time, own = float(ran["time"].sum()), float(ran["own"].sum())
    apart = say("cap_beside", lang, time=units.text(time - own, "s")) if time - own > 0.01 * time else ""
    said = per(study, "cap_in", lang) + say(
        "cap_step",
        lang,
        launches=say("comma", lang).join(_launched(counts, lang, kinds=ran["name"].nunique())),
        time=units.text(time, "s"),
        beside=apart,
    )
    hot = next(iter(study.hottest.to_dict("records")), {})
    if not number(hot, "share") > 0:
        return said
    return said + _hottest(hot, say("cap_of_that", lang, share=units.percent(float(hot["share"]))), lang)


def _hottest(kernel: Mapping[Any, Any], share: str, lang: str) -> str:
    roof = bound_why(kernel, lang)
    parts = [short_name(str(kernel["kernel"])), share, *([say("is_bound_by", lang, roof=roof)] if roof else [])]
    return say("cap_hottest", lang, what=say("comma", lang).join(parts))


def _launched(counts: Mapping[str, float], lang: str, *, kinds: int = 0) -> list[str]:
    """ "719 kernels (72 different)", "2.25 copies", "17 fills": what there is of them; kinds: 0 leaves that out."""
    names = (("kernel", "different" if kinds > 1 else "kernels"), ("memcpy", "copies"), ("memset", "fills"))
    told = [(name, many(counts[kind])) for kind, name in names if counts.get(kind, 0)]
    return [
        say(f"count_{name}_one" if count == "1" else f"count_{name}", lang, count=count, kinds=str(kinds))
        for name, count in told
    ]


def many(value: float) -> str:
    """How many of a thing an average step has: whole where only adding up in floating point keeps it from it."""
    return units.count(round(value, 6))


def launched(one: Budget, lang: str = "en") -> str:
    """ "719 kernels, 2.25 copies, 17 fills" of a step."""
    counts = {"kernel": one.launches, "memcpy": one.copies, "memset": one.fills}
    return say("comma", lang).join(_launched({kind: count / one.parts for kind, count in counts.items()}, lang))


def per(study: Study, key: str, lang: str, **values: str) -> str:
    """The words of `key` for a step, a passage of a range, or a record in which nothing repeats."""
    return say(key + ending(study), lang, **values)


def _how_much(study: Study, lang: str) -> str:
    if study.stepwise and not study.filtered:
        return _step_work(study, lang)
    kernels = study.hottest
    if not len(kernels):
        return say("cap_nothing_imported" if study.manifest.sample.kind == "import" else "cap_nothing", lang)
    total = float(kernels["time"].sum()) or math.nan if "time" in kernels else math.nan
    layers = _tool(study) == "trtexec"
    many = say("cap_layers" if layers else "cap_kernels", lang, count=str(len(kernels)))
    if len(kernels) == 1:
        many = say("cap_layers_one" if layers else "cap_kernels_one", lang)
    launches = f"{float(kernels['launches'].sum()):.0f}"
    ran = say("cap_launches_one" if launches == "1" else "cap_launches", lang, launches=launches, kernels=many)
    if not total > 0:
        return say("cap_untimed", lang, ran=ran)
    said = say("cap_least" if study.overlapping else "cap_timed", lang, ran=ran, time=units.text(total, "s"))
    frame = study.captured.timeline
    if study.filtered and frame is not None:
        said = say("cap_counted", lang, counted=said, total=units.text(float(frame["time"].sum()), "s"))
        kernels = kernels.sort_values("share", ascending=False, kind="stable")
    hot = kernels.iloc[0].to_dict()
    return said + _hottest(hot, units.percent(float(hot["share"])), lang)


# ---- the parts


def parts_table(study: Study, lang: str = "en") -> Table:
    """One row an implementation or a range: what is known of all stands in a column, in one unit.

    Correctness and speed-up are an implementation's; launches, share, declared work and the distance to its own floor
    a range's, what is inside it included. No rows for a single range that nothing was said of: its kernels say it.
    """
    if study.stepwise:
        return _ranges_table(study, lang)
    parts = _shown(study)
    rows: _Rows = [part.row or {} for part in parts]
    ranges: _Rows = [{} if part.impl is not None else part.row or {} for part in parts]
    total = float(study.hottest["time"].sum()) or math.nan if "time" in study.hottest else math.nan
    shares = [{"share": number(row, "time") / total} for row in ranges]
    launches = [units.count(number(row, "kernels")) for row in ranges]
    ranged = any(ranges)
    return Table.of(
        [
            Column(say("range", lang) if ranged else "", [part.name or NO_RANGE for part in parts]),
            Column(say("correct", lang), [correctness(part.impl, lang) for part in parts], 2),
            Column(say("speedup", lang), [speedup(part.row) for part in parts], 1),
            Column(say("js_launches", lang), launches, 5),
            column(say("time", lang), rows, "time", "s"),
            column(say("share", lang), shares, "share", "%", 1),
            *(_declared(study, [part.name for part in parts], lang) if ranged else ()),
            column(say("x_floor", lang), [row if study.declared else {} for row in ranges], "floor_ratio", "", 3),
            *_placed(rows, lang),
        ]
    )


def _ranges_table(study: Study, lang: str) -> Table:
    """What a step has of each range, with what is inside it; ranges whose names differ in numbers alone are one row."""
    inside = study.in_ranges
    if set(inside) <= {""} and not study.analysis.works:
        return Table([], [])
    whole = float(study.step["time"][study.step["kind"] == "kernel"].sum()) or math.nan
    parts = {part.name: part for part in study.parts}
    told = dict(_alike(inside))
    sums = {name: [sum(inside[path][at] for path in paths) for at in (0, 1)] for name, paths in told.items()}
    shown = sorted(told, key=lambda name: (-round(sums[name][0], 12), name.count("/"), name))[:TOP_RANGES]
    alone = [parts.get(told[name][0]) if len(told[name]) == 1 else None for name in shown]
    rows: _Rows = [part.row or {} if part is not None else {} for part in alone]
    times: _Rows = [{"time": sums[name][0], "share": sums[name][0] / whole} for name in shown]
    return Table.of(
        [
            Column(say("range", lang), [name or NO_RANGE for name in shown]),
            Column(per(study, "col_kernels", lang), [many(sums[name][1]) for name in shown], 5),
            column(per(study, "col_time", lang), times, "time", "s"),
            column(say("kernel_share", lang), times, "share", "%", 1),
            *_declared(study, [part.name if part is not None else "" for part in alone], lang),
            column(say("x_floor", lang), rows if study.declared else [{}] * len(rows), "floor_ratio", "", 3),
            *_placed(rows, lang),
        ]
    )


def _alike(paths: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """(name, ranges): each by itself, or as "Step # to #" those whose names differ in numbers alone and are many."""
    kinds: dict[str, list[str]] = {}
    for path in paths:
        kinds.setdefault(re.sub(r"\d+", "#", path), []).append(path)
    for kind, mine in kinds.items():
        yield from [(kind, mine)] if len(mine) >= MANY_ALIKE else [(path, [path]) for path in mine]


def _shown(study: Study) -> Sequence[Part]:
    """All implementations, or the longest ranges; none where one range is all there is and nothing was declared."""
    if study.manifest.impls:
        return study.ranked
    if len(study.parts) < 2 and not study.analysis.works:
        return ()
    longest = sorted(study.parts, key=lambda part: -number(part.row or {}, "time"))[:TOP_RANGES]
    return [part for part in study.parts if part in longest]


def _declared(study: Study, names: Iterable[str], lang: str) -> Iterator[Column]:
    """What a program said that its ranges must do."""
    said = [study.declared.get(name) for name in names]
    rows = [
        {
            "flops": sum(one.flops.values()) if one is not None and one.flops else math.nan,
            "bytes": math.nan if one is None or one.bytes is None else one.bytes,
        }
        for one in said
    ]
    yield column(say("declared", lang), rows, "flops", "FLOP", 6)
    yield column(say("declared", lang), rows, "bytes", "B", 6)


def _placed(rows: _Rows, lang: str) -> list[Column]:
    """Where rows stand under the roofs; intensity is of DRAM's bytes."""
    own = [{**row, "intensity": row.get("intensity", row.get("intensity_dram", math.nan))} for row in rows]
    moved = any(math.isfinite(number(row, "dram_bandwidth")) for row in rows)
    return [
        column(say("achieved", lang), rows, "achieved_flops", "FLOP/s", 4),
        column("DRAM", rows, "dram_bandwidth", "B/s", 5),
        column(say("of_peak" if moved else "dram_of_peak", lang), rows, "dram_fraction", "%", 5),
        column("FLOP/B", own, "intensity", "", 6),
        column(say("attainable", lang), rows, "attainable_fraction", "%", 3),
        Column(say("bound_by", lang), [named(str(row.get("bound_by", units.MISSING)), lang) for row in rows], 2),
    ]


def correctness(impl: Impl | None, lang: str = "en") -> str:
    """ "yes (5/5)", the name of what is wrong, or "reference"; a dash for a range."""
    if impl is None:
        return units.MISSING
    if impl.role == "reference":
        return say("reference", lang) if impl.ok else said_in(lang, impl.status)
    if impl.role == "callable":
        return say("not_checked", lang)
    passed = sum(check.passed for check in impl.checks)
    if not impl.ok:
        return said_in(lang, impl.status)
    return say("passed", lang, passed=str(passed), count=str(len(impl.checks)))


def speedup(row: Mapping[str, Any] | None) -> str:
    """ "1.23x [1.21, 1.25]" with the digits that tell the ends apart, or a dash for the reference and the unmeasured."""
    if row is None or not math.isfinite(number(row, "speedup")) or row["verdict"] not in (*PACED, "undecided"):
        return units.MISSING
    value, low, high = (float(row[name]) for name in ("speedup", "speedup_low", "speedup_high"))
    for places in (3, 4, 5):
        ends = units.digits(low, places), units.digits(high, places)
        if ends[0] != ends[1]:
            return f"{units.digits(value, places)}x [{ends[0]}, {ends[1]}]"
    return f"{units.digits(value)}x"


def tried(studies: Iterable[Study]) -> list[tuple[Study, Part]]:
    """The parts of many runs, each with its run: the rows of their overview."""
    return [(study, part) for study in studies for part in study.parts]


def overview(studies: Iterable[Study]) -> tuple[Table, list[str]]:
    """One row a candidate of many runs, and what is missing."""
    studies = list(studies)
    parts = tried(studies)
    rows: _Rows = [part.row or {} for _, part in parts]
    table = Table.of(
        [
            Column("sample", [study.manifest.sample.id for study, _ in parts]),
            Column("candidate", [part.name for _, part in parts]),
            Column("correct", [correctness(part.impl) for _, part in parts], 2),
            Column("speedup", [speedup(part.row) for _, part in parts], 1),
            Column("time", [units.text(number(row, "time"), "s") for row in rows]),
            column("x floor", rows, "floor_ratio", "", 3),
            column("DRAM of peak", rows, "dram_fraction", "%", 5),
            column("FLOP/B", rows, "intensity", "", 6),
            column("of attainable", rows, "attainable_fraction", "%", 4),
            Column("bound by", [str(row.get("bound_by", units.MISSING)) for row in rows], 2),
        ]
    )
    return table, sorted({counters_line(study) for study in studies} - {""})


# ---- kernels, floor, timeline


def kernels_table(study: Study, lang: str = "en", *, spans: bool = False) -> Table:
    """The longest kernels of each implementation, or over all ranges; `spans`: names as code spans of Markdown."""
    kernels = study.hottest
    if study.manifest.impls and len(kernels):
        kernels = kernels.groupby("impl", sort=False, group_keys=False).head(TOP_KERNELS)
    else:
        # What runs in no step is not among those of a step.
        stepwise = "step_time" in kernels and not study.filtered
        kernels = (kernels[kernels["step_time"] > 0] if stepwise else kernels).head(TOP_KERNELS)
    rows: _Rows = kernels.to_dict("records")
    names = short_names(str(row["kernel"]) for row in rows)
    told = [names[str(row["kernel"])] for row in rows]
    owners = [str(row["impl"]) or NO_RANGE for row in rows]
    owner = say("implementation" if study.manifest.impls else "range", lang)
    return Table.of(
        [
            Column("kernel", [code(name) for name in told] if spans else told),
            Column(owner, [] if set(owners) == {NO_RANGE} else owners, 4),
            *_amounts(study, rows, lang),
            *_placed(rows, lang),
        ]
    )


def _amounts(study: Study, rows: _Rows, lang: str) -> list[Column]:
    """How often, how long, and what share: of a step of a program, else of what was recorded."""
    if not study.stepwise:
        return [
            Column(say("js_launches", lang), [units.count(number(row, "launches")) for row in rows], 4),
            column(say("share", lang), rows, "share", "%", 1),
            column(say("time", lang), rows, "time", "s"),
        ]
    return [
        Column(per(study, "col_launches", lang), [many(number(row, "step_launches")) for row in rows], 4),
        column(say("program_share" if study.filtered else "kernel_share", lang), rows, "share", "%", 1),
        column(say("wall_share", lang) if study.filtered else per(study, "col_wall", lang), rows, "wall_share", "%", 2),
        column(per(study, "col_time", lang), rows, "step_time", "s"),
    ]


def kernel_note(study: Study, lang: str = "en") -> str:
    """Where the figures of the kernels of a sample come from; "" where they were not counted."""
    if not study.manifest.impls or not _counted(study):
        return ""
    kernels = study.kernels
    several = "call_time" in kernels and bool((kernels["call_time"].notna() & (kernels["share"] < 1)).any())
    return say("kernel_note", lang) + (say("kernel_note_share", lang) if several else "")


def _kernels(study: Study) -> Iterator[Section]:
    table = kernels_table(study, spans=True)
    if not table.rows:
        return
    note = kernel_note(study)
    hidden = len(study.hottest) - len(table.rows)
    more = f"{hidden} more kernels, and all names in full, are in kernels.csv."
    yield Section("Kernels", note, tables=(table,), after=more if hidden else "Names in full are in kernels.csv.")


def _floor(study: Study) -> Iterator[Section]:
    rows = [part.row for part in study.ranked if part.row is not None and math.isfinite(part.row["floor_ratio"])]
    works = study.analysis.works
    if not works or not rows:
        return
    lines = []
    for work in works:
        flops = ", ".join(f"{units.text(value, 'FLOP')} ({pipe})" for pipe, value in work.flops.items()) or "no FLOP"
        note = f"; {work.note}" if work.note else ""
        lines.append(f"{work.source}: {flops}, {units.text(work.bytes, 'B')} compulsory{note}")
    table = Table.of(
        [
            Column("", [str(row["impl"]) for row in rows]),
            column("time", rows, "time", "s"),
            column("floor", rows, "floor_time", "s"),
            column("x floor", rows, "floor_ratio", ""),
            Column("floor set by", [str(row["floor_bound_by"]) for row in rows]),
            column("hard floor", rows, "floor_hard", "s"),
            column("DRAM", rows, "bytes", "B"),
            column("x compulsory", rows, "compulsory_ratio", ""),
            Column("counted by", [str(row["work_source"]) for row in rows]),
        ]
    )
    note = below_least(study)
    yield Section("How far from the floor", lines=tuple(lines), tables=(table,), after=f"{note}." if note else "")


def timeline_lines(study: Study, lang: str = "en") -> list[str]:
    """Busy, idle, overlap, copies and launch cost, of the whole or of one call of each implementation."""
    return [line for name, found in study.timelines.items() for line in _timeline(name, found, lang)]


def _timeline(name: str, found: Timeline, lang: str) -> Iterator[str]:
    for one in found.devices:
        gaps, longest = one.gaps, {"time": units.text(one.gaps.largest, "s"), "kernel": short_name(one.gaps.after)}
        longest["before"] = short_name(one.gaps.before)
        yield say(
            "line_tl",
            lang,
            name=name or one.device or say("the_gpu", lang),
            span=units.text(one.span, "s"),
            busy=units.percent(1 - one.idle),
            idle=units.percent(one.idle),
            gaps=str(gaps.count),
            after=say("line_tl_after", lang, **longest) if gaps.count else "",
            beside=say("line_tl_beside", lang, time=units.text(one.overlap, "s")) if one.overlap else "",
        )
    copied = sum(one.time for one in found.copies)
    if copied:
        share = units.percent(copied / found.total)
        yield say("line_tl_copies" if name else "line_tl_copies_all", lang, time=units.text(copied, "s"), share=share)
    if found.api is not None and found.api.launch_calls and not name:
        each = units.text(found.api.per_launch, "s")
        yield say("line_tl_launch", lang, calls=str(found.api.launch_calls), each=each)


def _timelines(study: Study) -> Iterator[Section]:
    """The same with shares of kernels and ranges."""
    tables = []
    for name, found in study.timelines.items():
        # Of a program the tables of a step stand above.
        every = (("kernel", found.kernels), ("range", found.ranges if not name else ()))
        for head, shares in () if study.stepwise else every:
            shown = shares[:TOP_KERNELS]
            short = short_names(one.name for one in shown)
            rows = [
                [short[one.name] or NO_RANGE, str(one.launches), units.text(one.time, "s"), units.percent(one.share)]
                for one in shown
            ]
            if rows:
                first = f"{head} of {name}" if name else head
                tables.append(Table([first, "launches", "time", "share of GPU work"], rows))
    lines = timeline_lines(study)
    if lines or tables:
        yield Section("Timeline", lines=tuple(lines), tables=tuple(tables))


# ---- findings


def _findings(study: Study) -> Iterator[Section]:
    """The largest gains known of the best implementation, or of any range."""
    found = [one for one in study.findings() if one.severity == TIME and not one.ratio < MINOR]
    if study.best is not None:
        found = [one for one in found if one.impl == study.best.name]
    lines = []
    for one in found[:TOP_FINDINGS]:
        words, then, _ = worded(one, "en")
        where = f" in {code(short_name(one.kernel))}" if one.kernel else ""
        lines.append(f"**{gain(one)}**{where}: {words}. Next: {runnable(then, study)}.")
    if lines:
        whose = f" of {study.best.name}" if study.best is not None else ""
        note = f"The largest gains known{whose}: upper bounds, which do not add up. `profkit explain` has all of them."
        note = say("p_ranked_wall", "en") if study.stepwise and not placed(study) else note
        yield Section("What next", note, tuple(lines))


def _plot(study: Study) -> Iterator[Section]:
    if placed(study):
        yield Section("Roofline", after="![roofline](roofline.png)")
    elif (study.path / "waterfall.png").exists():
        yield Section(say("p_fall_title", "en"), after="![where the time goes](waterfall.png)")


def placed(study: Study) -> bool:
    """Whether any kernel, or a part by the work of its task, has a place in the picture of the roofs."""
    hottest = study.hottest.reindex(columns=["achieved_flops", "dram_bandwidth"])
    rows: list[Mapping[Any, Any]] = [*hottest.to_dict("records"), *(part.row or {} for part in study.parts)]
    roofed = bool(study.roofline.ceilings)
    return any(number(row, "achieved_flops") > 0 or (roofed and number(row, "dram_bandwidth") >= 0) for row in rows)


# ---- how it was measured


def _lines(study: Study) -> Iterator[Section]:
    found = tuple(lines.tables(study.lines))
    if found:
        note = "What the sampler saw warps wait for, charged to the line that makes them wait. A bound is a slice of its kernel's."
        yield Section("Source lines", note, tables=found)


def counters_line(study: Study, lang: str = "en") -> str:
    """One line that every writer shows beside numbers when counters are missing; "" when they are there."""
    if _counted(study):
        return ""
    why = said_in(lang, study.manifest.counters.why) or say("cap_only_times", lang)
    return say("counters_missing" if study.manifest.impls else "cap_missing", lang, why=why)


def inferred_lines(study: Study, lang: str = "en") -> list[str]:
    """What binds each implementation by time alone, a line each; [] without --perturb."""
    return [
        f"{name}{say('colon', lang)}{one.text(lang, named(one.bound_by, lang))}" for name, one in study.inferred.items()
    ]


def uncounted_line(study: Study, lang: str = "en") -> str:
    """One line about implementations whose FLOP or bytes are not the hardware's although others' are."""
    if not _counted(study):
        return ""
    rows = [part.row for part in study.ranked if part.impl is not None and part.row is not None]
    listed = [
        say("bound_why", lang, bound=str(row["impl"]), why=said_in(lang, str(row["work_source"] or "unknown")))
        for row in rows
        if row["work_source"] != "counted"
    ]
    return say("uncounted", lang, impls=say("listed", lang).join(listed)) if listed else ""


def _counted(study: Study) -> bool:
    return study.manifest.counters.state == "collected"


def below_least(study: Study, lang: str = "en") -> str:
    """One line beside counted bytes that are fewer than the task must move: what a cache kept; "" where none are."""
    rows = [part.row for part in study.ranked if part.impl is not None and part.row is not None]
    short = [row for row in rows if row["work_source"] == "counted" and row["bytes"] < row["compulsory_bytes"]]
    if not short:
        return ""
    least = units.text(float(short[0]["compulsory_bytes"]), "B")
    fewer = [(str(row["impl"]), units.text(float(row["bytes"]), "B")) for row in short]
    fewer = [(impl, moved) for impl, moved in fewer if moved != least]
    written = min((work.written for work in study.analysis.works if work.written > 0), default=0.0)
    kept = min(written, float(study.manifest.device.get("l2_bytes") or 0.0))
    late = all(row["compulsory_bytes"] - row["bytes"] <= kept for row in short)
    impls = say("listed", lang).join(say("below_of", lang, impl=impl, bytes=moved) for impl, moved in fewer)
    why = say("below_written" if late else "below_kept", lang)
    return say("below_least", lang, least=least, impls=impls, why=why) if fewer else ""


def paired_line(study: Study, lang: str = "en") -> str:
    """Why a speed-up is not the quotient of the two times beside it; "" where it is, to three digits."""
    rows = {part.name: part.row for part in study.ranked if part.row is not None}
    base = rows.get(study.analysis.reference)
    if base is None:
        return ""
    told = []
    for name, row in rows.items():
        if row is base or row.get("verdict") not in PACED or not row["time"] > 0:
            continue
        plain = units.digits(base["time"] / row["time"])
        if plain != units.digits(float(row["speedup"])):
            told.append(say("paired_of", lang, impl=name, ratio=plain))
    return say("paired", lang, ratios=say("listed", lang).join(told)) if told else ""


def timing_line(study: Study, lang: str = "en") -> str:
    """How the times were taken."""
    timing = study.manifest.timing
    if not timing.method:
        return say("nothing_timed", lang) if study.manifest.impls else kernel_times_line(study, lang)
    method = study.analysis.method or timing.method
    rows = [part.row for part in study.parts if part.row is not None and part.row["n"] > 0]
    half = [(row["time_high"] - row["time_low"]) / 2 / row["time"] for row in rows]
    cache = cache_of(study)
    flush = timing.flush_bytes if cache == timing.l2 else 0.0
    flushed = say("flushed", lang, size=units.text(flush, "B")) if flush else ""
    return say(
        "timing",
        lang,
        count=str(min((int(row["n"]) for row in rows), default=0)),
        state=named(cache, lang),
        flushed=flushed,
        note=said_in(lang, timing.notes.get(method, timing.note)),
        reached=units.percent(max(half)) if half and math.isfinite(max(half)) else say("unknown_share", lang),
        where=_processes(study, lang),
    )


def cache_of(study: Study) -> str:
    """The state of the L2 cache in which the samples that count were taken, "cold" or "warm"."""
    taken = {str(part.row["l2"]) for part in study.parts if part.row is not None and part.row["n"] > 0}
    return taken.pop() if len(taken) == 1 else study.manifest.timing.l2


def _processes(study: Study, lang: str) -> str:
    """Whether candidates ran apart from the judge; "" where there is none."""
    manifest = study.manifest
    if not manifest.candidates:
        return ""
    said = say("isolated" if manifest.isolated else "trusted", lang)
    rows = [part.row for part in study.parts if part.row is not None and part.row["processes"] > 1]
    if rows:
        widest = max(rows, key=lambda row: row["within"] ** 2 + row["between"] ** 2)
        shares = {name: units.percent(widest[name]) for name in ("within", "between")}
        said += say("processes", lang, count=f"{widest['processes']:.0f}", impl=str(widest["impl"]), **shares)
    return said


def kernel_times_line(study: Study, lang: str = "en") -> str:
    """How the times of single kernels were taken."""
    tool = _tool(study)
    return say(f"cap_{tool}" if tool in _TOOLS else "cap_other", lang)


def _tool(study: Study) -> str:
    launches = study.launches
    return str(launches["tool"].iloc[0]) if launches is not None and len(launches) else ""


def _method(study: Study) -> Iterator[Section]:
    manifest, counters = study.manifest, study.manifest.counters
    lines = [timing_line(study)]
    checks = [check for impl in manifest.candidates for check in impl.checks]
    if checks:
        tolerances = ", ".join(dict.fromkeys(check.said for check in checks if check.said))
        seeds = f"{len(manifest.seeds)} fresh inputs, seeds {manifest.seeds}"
        lines.append(f"correctness: {seeds}; tolerance {tolerances}")
    lines += inferred_lines(study)
    if _counted(study) and counters.version:
        passes = f"{counters.passes} passes, clock control {counters.clock_control}"
        passes += ", all in one process" if manifest.candidates else ""
        lines.append(f"counters: Nsight Compute {counters.version}, {passes}, caches flushed before each pass")
    for one in manifest.captures:
        origin = f", imported as {one.origin}" if one.origin else ""
        digest = f", sha256 {one.sha256[:12]}" if one.sha256 else ""
        lines += [f"{one.file}: {one.tool}, {one.rows} rows{origin}{digest}"] if not manifest.impls else []
    facts = {
        **{k: v for k, v in manifest.device.items() if k in ("name", "driver", "cc", "sms", "threads")},
        **manifest.versions,
    }
    lines += [*_ceilings(study), ", ".join(f"{key} {value}" for key, value in facts.items())]
    lines.append(f"profkit {manifest.profkit}, {manifest.created}")
    yield Section("How it was measured", lines=tuple(line for line in lines if line))


def _ceilings(study: Study) -> Iterator[str]:
    rows = [part.row for part in study.parts if part.row is not None]
    used = {str(row["compute"]) for row in rows if row["compute"]}
    used |= {"dram"} if any(math.isfinite(row["dram_fraction"]) for row in rows) else set()
    for name in sorted(used):
        ceiling = study.roofline.get(name)
        if ceiling is not None:
            unit, note = "B/s" if ceiling.kind == "bandwidth" else "FLOP/s", ceiling.variant or ceiling.note
            peak = f"ceiling {name}: {units.text(ceiling.peak, unit)}, {ceiling.source}"
            yield peak + (f" ({note})" if note else "")


# ---- what weakens it, what went wrong, how to do it again


@dataclass(frozen=True)
class Said:
    """A doubt as it is told: once, with whom it concerns (`about`, "" among it for the whole run)."""

    what: str
    how_much: str
    fix: str
    about: tuple[str, ...] = ()
    code: str = ""


ASIDE = (
    "work-differs",
    "fp16-vectors",
    "methods-differ",
    "floor-without-launch",
    "no-counters",
    "luck-below-lead",
    "two-humps-near",
    "excessive-explained",
)
"""Doubts that explain a figure beside the answer, or do not reach it: neither right, faster nor the time rests on them."""
OF_ROOFS = ("datasheet-roofs",)
"""Doubts about roofs: they are told where something is held against one."""


def doubts(study: Study, lang: str = "en") -> list[Said]:
    """Each doubt once; where one concerns several parts, how much stands after the name of each."""
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    names = sorted((part.name for part in study.parts if part.name), key=len, reverse=True)
    roofs = placed(study)
    for one in study.analysis.doubts:
        if one.code in OF_ROOFS and not roofs:
            continue
        about = one.about or next((name for name in names if one.what.startswith(f"{name}: ")), "")
        what = one.what.removeprefix(f"{about}: ") if about else one.what
        groups.setdefault((what, one.fix, one.code), []).append((about, one.how_much))
    return [_told(what, fix, code, concerned, lang) for (what, fix, code), concerned in groups.items()]


def that_matter(study: Study, lang: str = "en") -> list[Said]:
    """The doubts that the answer rests on: of the best candidate, the reference or the whole, and not only aside."""
    return concerning(study, study.best.name if study.best is not None else "", lang)


def concerning(study: Study, name: str, lang: str = "en") -> list[Said]:
    """The doubts about a part, the reference or the whole, without those beside the answer."""
    mine = {"", study.analysis.reference, name}
    return [one for one in doubts(study, lang) if one.code not in ASIDE and mine & set(one.about)]


def _told(what: str, fix: str, code: str, concerned: Sequence[tuple[str, str]], lang: str) -> Said:
    about = tuple(name for name, _ in concerned)
    what, fix = said_in(lang, what), said_in(lang, fix)
    amounts = [(name, said_in(lang, how_much)) for name, how_much in concerned]
    if len(amounts) == 1:
        ((name, how_much),) = amounts
        return Said(f"{name}{say('colon', lang)}{what}" if name else what, how_much, fix, about, code)
    told = [(say("colon", lang) if lang == "zh" else " ").join(part for part in pair if part) for pair in amounts]
    return Said(what, say("semicolon", lang).join(told), fix, about, code)


def doubt_line(one: Said | Doubt, lang: str = "en") -> str:
    """What is doubtful and by how much, as a sentence's half; a Doubt as it came is told in the language."""
    what, how_much = (said_in(lang, text) for text in (one.what, one.how_much))
    return what + (say("colon", lang) + how_much if how_much else "")


def _doubts(study: Study) -> Iterator[Section]:
    """Those that matter; the others are counted."""
    said = [
        one.what + (f": {one.how_much}" if one.how_much else "") + (f". Fix: {one.fix}" if one.fix else "")
        for one in that_matter(study)
    ]
    more = more_doubts(study)
    if said or more:
        yield Section("Doubts", lines=tuple(said), after=f"{more}." if more else "")


def more_doubts(study: Study) -> str:
    """How many doubts the answer does not rest on, and where they are; "" for none."""
    count = len(doubts(study)) - len(that_matter(study))
    whose = f"about {'other implementations and ' if study.manifest.impls else ''}figures beside the answer"
    return f"{count} more, {whose}, in metrics.json" if count else ""


def sanitizer_lines(study: Study) -> list[str]:
    """What compute-sanitizer found, a line each, and one for every clean candidate; [] when nothing was asked for."""
    found = []
    for impl in study.manifest.candidates:
        clean = [one.tool for one in impl.sanitized if one.state == "clean"]
        found += [f"{impl.name}: clean under {', '.join(clean)}"] if clean else []
        for one in impl.sanitized:
            found += [_fault(impl.name, finding) for finding in one.findings]
            found += [f"{impl.name}: {one.tool} could not check it: {one.why}"] if one.state == "failed" else []
    return found


def _fault(name: str, finding: Finding) -> str:
    where = f" at {finding.place}" if finding.place else ""
    detail = f" ({finding.detail})" if finding.detail else ""
    level = "" if finding.severity == "error" else f", {finding.severity}"
    foreign = "" if finding.own else ", a library's kernel"
    once = "" if finding.again else ", seen once and not again"
    return (
        f"{name}: {finding.tool}: {finding.kind} in {finding.kernel or 'no kernel'}{where}, "
        f"{finding.count} times{level}{foreign}{once}{detail}"
    )


def shapes_table(study: Study, lang: str = "en") -> Table:
    """One row a shape and one of the geometric mean, a column a candidate; no rows where one shape alone was timed."""
    shapes = study.shapes
    if not shapes:
        return Table([], [])
    means = study.over_shapes
    names = [impl.name for impl in study.manifest.candidates if any(impl.name in one.ratios for one in shapes)]
    rows = [["; ".join(one.inputs), *(_ratio(one.ratios.get(name)) for name in names)] for one in shapes]
    rows.append([say("geomean", lang), *(_ratio(means.get(name)) for name in names)])
    return Table([say("inputs", lang), *names], rows)


def passes_table(study: Study, lang: str = "en") -> Table:
    """One row a pass (forward, backward, both): times, and speed-ups of the candidates; no rows without gradients."""
    passes = study.passes
    if not passes:
        return Table([], [])
    names = [impl.name for impl in study.manifest.candidates if any(impl.name in one.ratios for _, one in passes)]
    head = [say("pass", lang), say("reference", lang), *(part for n in names for part in (n, say("speedup", lang)))]
    rows = []
    for name, one in passes:
        times = {who: units.text(seconds, "s") for who, seconds in one.times.items()}
        mine = (part for who in names for part in (times.get(who, ""), _ratio(one.ratios.get(who))))
        rows.append([say(f"pass_{name}", lang), times.get("reference", ""), *mine])
    return Table(head, rows)


def _ratio(one: Ratio | None) -> str:
    known = {} if one is None else {"speedup": one.value, "speedup_low": one.low, "speedup_high": one.high}
    return speedup({**known, "verdict": "undecided"})


def _shapes(study: Study) -> Iterator[Section]:
    table = shapes_table(study)
    if table.rows:
        yield Section(say("by_shape", "en"), say("shapes_note", "en"), tables=(table,))


def _passes(study: Study) -> Iterator[Section]:
    table = passes_table(study)
    if table.rows:
        by = ", ".join(study.passes[-1][1].inputs)
        yield Section(say("by_pass", "en"), say("passes_note", "en").format(by=by), tables=(table,))


def _sanitizer(study: Study) -> Iterator[Section]:
    found = sanitizer_lines(study)
    if found:
        yield Section("compute-sanitizer", lines=tuple(line.replace("|", "\\|") for line in found))


def last_lines(study: Study) -> list[tuple[Impl, str]]:
    """Whoever went wrong, and the last lines it printed, if any; all it said where the first line cuts that."""
    gone = [impl for impl in study.manifest.impls if not impl.ok and impl.status != "skipped"]
    whole = [(impl, impl.reason if brief(impl.reason) != impl.reason else "") for impl in gone]
    told = [(impl, "\n".join(part for part in (impl.tail, reason) if part)) for impl, reason in whole]
    return [(impl, text) for impl, text in told if text]


def _trouble(study: Study) -> Iterator[Section]:
    for impl, tail in last_lines(study):
        yield Section(f"{impl.name}: {impl.status}", brief(impl.reason), block=tail.replace("```", "'''"))


def again(study: Study) -> str:
    """The command line that measures this again, with the options that decide what is collected; "" for a callable."""
    manifest = study.manifest
    if manifest.sample.kind == "callable":
        return ""
    if manifest.sample.kind == "import":
        # What was read together with a file is named with it.
        files = [[one.origin or one.file, *map(basename, one.companions.values())] for one in manifest.captures]
        return f"profkit import {shlex.join(dict.fromkeys(chain.from_iterable(files)))} -o NEW"
    if manifest.program:
        tools = {one.tool for one in manifest.captures}
        flags = [flag for tool, flag in (("ncu", "--ncu"), ("nsys", "--nsys"), ("cupti", "--nsys")) if tool in tools]
        # The ranking of --hot records a timeline as well.
        flags = ["--hot", str(manifest.hot)] if manifest.hot else list(dict.fromkeys(flags))
        flags += ["--deep"] if study.deep else []
        return shlex.join(["profkit", "profile", *flags, *manifest.window.words()[:-1], "--", *manifest.program])
    flags = {"collected": ["--ncu"], "off": ["--events"]}.get(manifest.counters.state, [])
    cpu = ["--device", "cpu"] if manifest.device.get("kind") == "cpu" else []
    return shlex.join(["profkit", "profile", manifest.sample.path, *flags, *(["--deep"] if study.deep else []), *cpu])


def _again(study: Study) -> Iterator[Section]:
    line, manifest = again(study), study.manifest
    if not line:
        return
    listed = manifest.sample.files.items() if manifest.impls else ()
    files = ", ".join(f"{ref.path} {ref.sha256[:12]}" for role, ref in listed if role != "prompt")
    how = "-c constraints.txt -e ." if manifest.sample.path else "."
    block = f"pip install {how}    # in a checkout of profkit\n{line}"
    yield Section("Do it again", block=block, after=f"Files (sha256): {files}" if files else "")


def sections(study: Study) -> list[Section]:
    """Everything after the parts, in order; what is empty is not there."""
    makers = (
        _holes,
        _findings,
        _plot,
        _shapes,
        _passes,
        _lines,
        _kernels,
        _floor,
        _timelines,
        _sanitizer,
        _method,
        _doubts,
        _trouble,
        _again,
    )
    return [section for make in makers for section in make(study)]
