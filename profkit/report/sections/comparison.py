"""Sentences and tables of a comparison: implementations, or programs by their step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from analyzers.compare import NOT_COMPARABLE, Ladder, Moved
from analyzers.timeline.budget import SLICES
from analyzers.timeline.compare import APPEARED, GONE, PASSAGES, RECORD, STEPS, Programs, Rung
from analyzers.timeline.idle import IDLE
from analyzers.verdicts.speedup import shown
from analyzers.verdicts.timing import differ
from profkit.report.layout import Column, Table, column
from profkit.report.messages import bound, bound_word, of_roof, say
from profkit.report.names import short_name, short_names
from profkit.report.sections import answer
from profkit.report.sections.tables import spelled
from roofline import units

if TYPE_CHECKING:
    from analyzers.verdicts.statistics import Ratio
    from profkit.report.compare import Chosen

MOST_CHANGES = 3
"""Counters that the sentence on what changed names."""
MOST_PIECES, LEAST = 14, 5e-4
"""Rows of the table of changed kernels, copies and fills, and the share of the longer step needed for a row."""
_ENDINGS = {STEPS: "_step", PASSAGES: "_passage", RECORD: "_all"}
_UNITS = dict.fromkeys(("bytes", "l2_bytes", "l1_bytes", "shared_memory"), "B") | {"flops": "FLOP"}


def of_ladder(ladder: Ladder, chosen: Sequence[Chosen]) -> tuple[str, list[str]]:
    """The verdict's sentence, and what changed in the last step."""
    first, above, last = ladder.rungs[0], *ladder.rungs[-2:]
    said = judged(last.since)
    if differ(last.caller, last.since):
        waited = {"before": units.text(first.caller_time, "s"), "after": units.text(last.caller_time, "s")}
        said = say("c_clocks", said=said, caller=judged(last.caller), **waited)
    if above is not first:
        said = say("c_many", said=said, above=above.label, step=judged(last.over_step))
    kernels = [short_name(one.kernel, 48) for one in (above, last) if one.kernel]
    other = [f"{say('c_kernel')} {' -> '.join(kernels)}"] if above.kernel != last.kernel and kernels[1:] else []
    files = [one for one in last.changed if " -> " not in one] if last.changed else same_file(chosen)
    return _arrow(first, last, "", said), [*files, *other, *map(moved, last.moved[:MOST_CHANGES])]


def of_programs(found: Programs) -> tuple[str, list[str]]:
    """The verdict's sentence, and what changed from the first to the last."""
    first, last = found.rungs[0], found.rungs[-1]
    said = judged(last.since)
    if not math.isnan(last.since.low):
        said += say("c_of_steps", few=str(first.known), many=str(last.known))
    # Beyond the steps' spread: what else the profiler may have added.
    if not last.since.low <= (least := last.since.value * last.since.slack) <= last.since.high and least > 0:
        said += say("c_recorded", ratio=units.digits(least))
    if differ(last.busy, last.since):
        said += say("c_gpu", said=judged(last.busy))
    slices = [(kind, first.part(kind), last.part(kind)) for kind in SLICES]
    short = short_names(one.name for one in last.pieces)
    pieces = [(short[one.name], one.before, one.after) for one in last.pieces[:2]]
    large = sorted(slices, key=lambda one: -abs(one[2] - one[1]))[:2]
    parts = [(say(f"wall_{kind}"), old, new) for kind, old, new in large] + pieces
    told = [f"{what} {units.text(old, 's')} -> {units.text(new, 's')}" for what, old, new in parts if old != new]
    alike = first.window == last.window
    return _arrow(first, last, per(found, "st_per") if alike else "", said), told


def _arrow(first: Any, last: Any, each: str, verdict: str) -> str:
    times = {"before": units.text(first.time, "s"), "after": units.text(last.time, "s")}
    return say("c_two", first=first.label, last=last.label, per=each, verdict=verdict, **times)


def judged(one: Ratio) -> str:
    """ "faster: 1.35x [1.30, 1.41]"."""
    value = say("colon") + spelled(one.value, one.low, one.high) if one.value > 0 else ""
    return say(f"c_{one.verdict}") + value


# ---- the steps of a ladder


def same_file(chosen: Sequence[Chosen]) -> list[str]:
    """That files have not changed, where they are known: not of exports."""
    return [say("c_same_file")] if all(one.study.manifest.impls for one in chosen) else []


def ladder_table(ladder: Ladder, chosen: Sequence[Chosen], correct: Sequence[str] = ()) -> Table:
    """One row per step; all times in one unit."""
    rungs = ladder.rungs
    same = next(iter(same_file(chosen)), units.MISSING)
    first, *others = [", ".join(rung.changed) for rung in rungs]
    files = [units.MISSING if " -> " in one else one or same for one in others]
    unit, times = units.column([rung.time for rung in rungs], "s")
    waited = column(say("c_caller"), [vars(rung) for rung in rungs], "caller_time", "s", 1)
    gains = [f" ({shown(rung.caller.value, 'ratio')})" if rung.caller.value > 0 else "" for rung in rungs]
    caller = [] if waited.empty else [replace(waited, cells=list(map(str.__add__, waited.cells, gains)))]
    return Table.of(
        [
            Column(say("implementation"), [rung.label for rung in rungs]),
            Column(say("measure"), [first or units.MISSING, *files], 5),
            Column(say("correct"), correct or [units.MISSING] * len(rungs), 5),
            Column(f"{say('c_on_device' if caller else 'time')} [{unit}]", times),
            *caller,
            Column(say("c_step"), [ratio_text(rung.step, rung) for rung in rungs]),
            Column(
                say("since"), [shown(rung.total, "ratio") if len(rungs) > 2 else units.MISSING for rung in rungs], 3
            ),
            Column(say("js_frac"), [of_roof(one.row) for one in chosen], 4),
            Column(say("x_lower_bound"), [answer.far(one.row) for one in chosen], 4),
            Column(say("bound_by"), [(bound(one.row) and bound_word(one.row)) or units.MISSING for one in chosen], 2),
        ]
    )


def ratio_text(value: float, one: Any) -> str:
    """ "1.35x [1.3, 1.41] faster"; a dash where nothing is compared."""
    if math.isnan(value):
        return say(f"c_{one.verdict}") if one.verdict == NOT_COMPARABLE else units.MISSING
    return f"{spelled(value, one.low, one.high)} {say(f'c_{one.verdict}')}"


def moved(one: Moved) -> str:
    """ "DRAM traffic 2.58 GB -> 268 MB"."""
    share = one.name.endswith(("_fraction", "_share", "occupancy", "issue_active"))
    unit, show = _UNITS.get(one.name, ""), units.percent if share else units.count
    before, after = (units.text(value, unit) if unit else show(value) for value in (one.before, one.after))
    return f"{say(f'moved_{one.name}')} {before} -> {after}"


# ---- the steps of programs


def per(found: Programs, key: str, **values: str) -> str:
    """The message `key` for a step, a passage or a whole record."""
    windows = {one.window for one in found.rungs}
    return say(key + _ENDINGS[windows.pop() if len(windows) == 1 else RECORD], **values)


def _window(one: Rung) -> str:
    """ "steady state, 5 steps"."""
    said = say(f"st_window{_ENDINGS[one.window]}", count=str(one.counted), range=one.within)
    return said + (say("st_of_device", device=one.device, count=str(one.devices)) if one.devices > 1 else "")


def sides_table(found: Programs) -> Table:
    """One row per program: window, step time, GPU work, launches, speed-up."""
    taken = found.rungs
    rows = [{"time": one.budget.step, "share": one.budget.busy / one.budget.step} for one in taken]
    since = [ratio_text(one.since.value, one.since) for one in found.rungs]
    return Table.of(
        [
            Column(say("st_program"), [one.label for one in taken]),
            column(per(found, "st_time"), rows, "time", "s"),
            Column(say("st_range"), [answer.spread(one.budget) for one in taken], 3),
            Column(say("c_step"), [ratio_text(one.ratio.value, one.ratio) for one in found.rungs]),
            Column(say("since"), since if len(since) > 2 else [units.MISSING] * len(since), 4),
            column(say("st_busy"), rows, "share", "%", 2),
            Column(say("st_busy_ratio"), [ratio_text(one.busy.value, one.busy) for one in found.rungs], 1),
            Column(per(found, "st_launched"), [answer.launched(one.budget) for one in taken], 6),
            Column(say("st_window"), [_window(one) for one in taken], 5),
        ]
    )


def slices_table(found: Programs) -> Table:
    """One row per part of a step, one column per program, and the change from first to last.

    Parts: the step, GPU work and idle time; the last two are split further.
    """
    taken = found.rungs
    told = [(per(found, "st_whole"), [one.budget.step for one in taken])]
    for head, kinds in (("st_busy", SLICES[: -len(IDLE)]), ("wall_idle", IDLE)):
        parts = [(kind, [one.part(kind) for one in taken]) for kind in kinds]
        told.append((say(head), [sum(each) for each in zip(*(each for _, each in parts), strict=True)]))
        told += [(f"- {say(f'wall_{kind}')}", each) for kind, each in parts if any(each)]
    return Table.of(
        [
            Column(per(found, "st_part"), [name for name, _ in told]),
            *(Column(one.label, [units.text(each[at], "s") for _, each in told]) for at, one in enumerate(taken)),
            Column(say("c_change"), [_change(each[-1] - each[0]) for _, each in told]),
        ]
    )


def _change(seconds: float) -> str:
    """ "+1.2 ms", "-30 us"."""
    return ("+" if seconds > 0 else "-" if seconds < 0 else "") + units.text(abs(seconds), "s")


def pieces_table(found: Programs, at: int) -> Table:
    """Kernels, copies and fills compared with the previous program, largest change first."""
    before, after = found.rungs[at - 1], found.rungs[at]
    least = LEAST * max(before.time, after.time)
    large = [one for one in after.pieces if abs(one.gained) >= least or one.word in (APPEARED, GONE)][:MOST_PIECES]
    rest = [one for one in after.pieces if one not in large]
    short = short_names(one.name for one in after.pieces)
    rows = [
        [
            short[one.name],
            " -> ".join(dict.fromkeys(map(answer.many, (one.count_before, one.count_after)))),
            *(units.text(seconds, "s") if seconds else units.MISSING for seconds in (one.before, one.after)),
            _change(one.gained),
            say(f"st_{one.word}"),
        ]
        for one in large
    ]
    if rest:
        sums = [sum(one.before for one in rest), sum(one.after for one in rest)]
        times = [units.text(one, "s") for one in sums]
        rows.append([say("c_rest", count=str(len(rest))), "", *times, _change(sums[1] - sums[0]), ""])
    heads = say("st_piece"), per(found, "col_launches"), before.label, after.label, say("st_change")
    return Table([*heads, say("st_word")], rows, (0, 4, 2, 2, 0, 0)) if rows else Table([], [])
