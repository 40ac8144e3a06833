"""Kernels, what the host did in idle times, and the timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyzers.records import number
from profkit.report.layout import Column, Table, code, column
from profkit.report.messages import say
from profkit.report.names import names_of, short_name
from profkit.report.sections.answer import many, per
from profkit.report.sections.method import counted
from profkit.report.sections.parts import placed_columns
from roofline import units

if TYPE_CHECKING:
    from analyzers.timeline.budget import Budget
    from analyzers.timeline.summary import Timeline
    from profkit.study.study import Study

TOP_KERNELS, TOP_THREADS = 12, 4
LEAST_HOLE = 0.005
"""Share of the wall time from which idle time of a kind is listed."""
_Rows = Sequence[Mapping[Any, Any]]


def kernels_table(study: Study, of: Sequence[str] = (), *, spans: bool = False) -> Table:
    """Longest kernels of each implementation or of all ranges; `spans`: names as code."""
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
            Column("operator" if study.of_operators else "kernel", [code(name) for name in told] if spans else told),
            Column(owner, [] if set(owners) == {say("no_range")} else owners, 4),
            *_amounts(study, rows),
            *placed_columns(rows),
        ]
    )


def _amounts(study: Study, rows: _Rows) -> list[Column]:
    """Count, time and share: per step of a program, else of what was recorded."""
    own = study.of_operators
    if not study.stepwise:
        return [
            Column(
                say("op_calls" if own else "js_launches"), [units.count(number(row, "launches")) for row in rows], 4
            ),
            column(say("share"), rows, "share", "%", 1),
            column(say("op_own" if own else "time"), rows, "time", "s"),
        ]
    return [
        Column(per(study, "col_launches"), [many(number(row, "step_launches")) for row in rows], 4),
        column(say("program_share" if study.filtered else "kernel_share"), rows, "share", "%", 1),
        column(say("wall_share") if study.filtered else per(study, "col_wall"), rows, "wall_share", "%", 2),
        column(per(study, "col_time"), rows, "step_time", "s"),
    ]


def kernel_note(study: Study) -> str:
    """Where the figures of the kernels of a sample come from; "" where they were not counted."""
    if not study.manifest.impls or not counted(study):
        return ""
    kernels = study.kernels
    several = "call_time" in kernels and bool((kernels["call_time"].notna() & (kernels["share"] < 1)).any())
    return say("kernel_note") + (say("kernel_note_share") if several else "")


def holes_table(study: Study, one: Budget) -> Table:
    """Largest idle times of a step by what the host did; no rows if unknown."""
    told = [hole for hole in one.named if hole.seconds >= LEAST_HOLE * one.window]
    rows: _Rows = [{"time": hole.seconds / one.parts, "share": hole.seconds / one.window} for hole in told]
    if not rows:
        return Table([], [])
    between = [f"{short_name(hole.after, 40)} -> {short_name(hole.before, 40)}" for hole in told]
    unnamed = say("hole_unnamed")
    return Table.of(
        [
            Column(say("hole_why"), [say(f"wall_{hole.cause}") for hole in told]),
            column(per(study, "col_idle"), rows, "time", "s"),
            column(per(study, "col_wall"), rows, "share", "%", 1),
            Column(per(study, "col_times"), [many(hole.count / one.parts) for hole in told], 2),
            Column(say("hole_between"), between, 3),
            Column(say("hole_doing"), [hole.doing or unnamed for hole in told]),
        ]
    )


def holes_tables(study: Study) -> list[Table]:
    """That of each process and device that has one."""
    return [table for one in study.budgets.values() if (table := holes_table(study, one)).rows]


def timeline_lines(study: Study) -> list[str]:
    """Busy, idle, overlap, copies and launch cost; of operators by thread."""
    if study.of_operators:
        return list(_threads(study))
    return [line for name, found in study.timelines.items() for line in _timeline(study, name, found)]


def _threads(study: Study) -> Iterator[str]:
    """Share of each thread in the time from first to last operator, and data waits."""
    frame, host = study.captured.timeline, study.host
    if frame is None or host is None:
        return
    span = float((frame["start"] + frame["time"]).max() - frame["start"].min())
    for thread, busy in frame.groupby("stream", observed=True)["time"].sum().nlargest(TOP_THREADS).items():
        shares = {"busy": units.percent(float(busy) / span), "rest": units.percent(1 - float(busy) / span)}
        yield say("op_thread", thread=str(thread), span=units.text(span, "s"), **shares)
    loading = float(host["time"][host["call"].astype(str).str.startswith("enumerate(DataLoader)")].sum())
    if loading:
        yield say("op_loading", time=units.text(loading, "s"), share=units.percent(loading / span))


def _timeline(study: Study, name: str, found: Timeline) -> Iterator[str]:
    for one in found.devices:
        longest = {"time": units.text(one.largest, "s"), "kernel": short_name(one.after)}
        longest["before"] = short_name(one.before)
        yield say(
            "line_tl",
            name=name or one.device or say("the_gpu"),
            span=units.text(one.span, "s"),
            busy=units.percent(1 - one.idle),
            idle=units.percent(one.idle),
            gaps=str(one.gaps),
            after=say("line_tl_after", **longest) if one.gaps else "",
            beside=say("line_tl_beside", time=units.text(one.overlap, "s")) if one.overlap else "",
        )
    if found.copied and not study.stepwise:
        time, share = units.text(found.copied, "s"), units.percent(found.copied / found.total)
        yield say("line_tl_copies" if name else "line_tl_copies_all", time=time, share=share)
