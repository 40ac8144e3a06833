"""Page of several runs: speed-up, change of time, counters that moved, the gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analyzers.compare import Ladder
from analyzers.verdicts.speedup import shown
from analyzers.waterfall import EXCESS, WORDS, Waterfall
from profkit._version import __version__
from profkit.report import figures, programs, sections, units
from profkit.report import ladder as view
from profkit.report.messages import named, of_pair, say
from profkit.report.names import short_name
from profkit.report.page.data import Shown, data_of
from profkit.report.page.frame import render
from profkit.report.page.shown import Values, change, falls_of, wall_of
from roofline.figure.style import places

if TYPE_CHECKING:
    from analyzers.timeline.compare import Programs
    from profkit.report.ladder import Chosen
    from profkit.report.programs import Compared

MOST_ROWS = 14
"""Rows of the table of what a waterfall gained or lost."""


def page_of(done: Compared, limit: float | None = None) -> str:
    """Page of a comparison; `limit`: of the gate, as a fraction of the first step's time."""
    found = done.found
    parts = _parts(done.chosen, found) if isinstance(found, Ladder) else []
    data = {**data_of(parts, best=found.rungs[-1].label if parts else ""), "timeline": None}

    def make() -> dict[str, Any]:
        if isinstance(found, Ladder):
            own, verdict = _ladder(done, found, parts, data), found.rungs[-1].verdict
        else:
            own, verdict = _programs(done, found), found.rungs[-1].since.verdict
        runs = dict.fromkeys(f"{one.manifest.sample.id}, {one.manifest.created}" for one in done.studies)
        return {
            "title": " → ".join(rung.label for rung in found.rungs),
            "subtitle": "; ".join([*dict.fromkeys(sections.device(one) for one in done.studies), *runs]),
            "mood": verdict if verdict in ("faster", "slower") else "",
            "gate": gate(done, limit),
            "gate_mood": _gate_mood(done, limit),
            "stepwise": not parts,
            "kernel_note": say("kernel_note") if parts else "",
            "version": __version__,
            **own,
        }

    return render("compare.html", data, make)


# ---- the gate


def gate(done: Compared, limit: float | None) -> str:
    """What was asked of the last steps and came of it."""
    if limit is None:
        return say("c_no_gate")
    found, known = done.found, {"limit": units.percent(limit)}
    if found.apart:
        return say("c_apart", facts=say("listed").join(map(named, found.apart)))
    slower, unsure = found.regressions(limit), done.inconclusive(limit)
    if isinstance(found, Ladder):
        said = ", ".join(f"{rung.label} +{units.percent(1 / rung.total - 1)}" for rung in slower)
        return say("c_regressed", steps=said, **known) if slower else say("c_passed", **known)
    if found.unknown:
        return say("st_gate_unknown", steps=", ".join(found.unknown))
    key = "st_gate_regressed" if slower else "st_gate_inconclusive" if unsure else "st_gate_passed"
    return say(key, steps=", ".join(rung.label for rung in slower or unsure), **known)


def _gate_mood(done: Compared, limit: float | None) -> str:
    if limit is None:
        return ""
    if done.found.apart or getattr(done.found, "unknown", ()) or done.found.regressions(limit):
        return "wrong"
    return "" if done.inconclusive(limit) else "faster"


# ---- programs


def _programs(done: Compared, found: Programs) -> dict[str, Any]:
    """Values of a page of programs."""
    slices = programs.slices(found)
    longest = max(found.rungs[0].time, found.rungs[-1].time)
    head = programs.per(found, "p_one")
    tables = [(rung.label, programs.pieces_table(found, at)) for at, rung in enumerate(found.rungs) if rung.pieces]
    return {
        "lead": programs.lead(found),
        "table": programs.sides_table(found),
        "note": say("st_note"),
        "falls": [],
        "budgets": [wall_of(rung.taken.budget, head, rung.label) for rung in found.rungs],
        "difference": ([rung.label for rung in found.rungs], [change(*one, longest) for one in slices]),
        "moved": [],
        "work": tables,
        "caveats": programs.caveats(done.studies, found),
    }


# ---- implementations


def _ladder(done: Compared, ladder: Ladder, parts: Sequence[Shown], data: dict[str, Any]) -> dict[str, Any]:
    """Implementations as a ladder."""
    known = [part for part in parts if part.impl in part.study.waterfalls]
    now = say("p_now" if done.studies[0].manifest.impls else "p_now_gpu")
    moved = [(rung.label, [view.moved(one) for one in rung.moved]) for rung in ladder.rungs if rung.moved]
    return {
        "lead": _lead(ladder),
        "table": view.ladder_table(ladder, [_correct(one) for one in done.chosen]),
        "note": "",
        "falls": list(falls_of(known, now, data["kernels"], open_=len(known) - 1)),
        "budgets": [],
        "difference": _difference(parts),
        "moved": moved,
        "work": [],
        "caveats": _caveats(done.chosen, ladder),
    }


def _caveats(chosen: Sequence[Chosen], ladder: Ladder) -> list[sections.Said]:
    """What weakens the comparison, and each step's own caveats, once."""
    own = dict.fromkeys(said for one in chosen for said in sections.concerning(one.study, one.impl))
    return [*map(sections.Said.of, ladder.caveats), *own]


def _parts(chosen: Sequence[Chosen], ladder: Ladder) -> list[Shown]:
    """The steps in their order. Of one run they keep the colours that they have on its page."""
    colours = places(figures.ladder_order(chosen, ladder))
    pairs = zip(chosen, ladder.rungs, strict=True)
    return [Shown(one.study, one.impl, rung.label, colours[rung.label]) for one, rung in pairs]


def _correct(one: Chosen) -> str:
    return sections.correctness(next((impl for impl in one.study.manifest.impls if impl.name == one.impl), None))


def _lead(ladder: Ladder) -> str:
    first, last = ladder.rungs[0], ladder.rungs[-1]
    times = {"before": units.text(first.time, "s"), "after": units.text(last.time, "s")}
    how = {"last": last.label, "first": first.label, "ratio": shown(last.total, "ratio")}
    sure = say("c_sure", word=say(f"c_{last.verdict or 'inconclusive'}"), interval=view.interval(last))
    key = "c_two" if len(ladder.rungs) == 2 else "c_many"
    return say(key, **times, **how, sure=sure, step=shown(last.step, "ratio"))


def _difference(parts: Sequence[Shown]) -> tuple[list[str], list[Values]]:
    """(labels, changes by kind of time and kernel), the largest first; empty without waterfalls."""
    falls = [part.study.waterfalls.get(part.impl) for part in parts]
    known = [fall for fall in falls if fall is not None]
    if len(known) < len(falls):
        return [], []
    tables = [_sums(fall) for fall in known]
    sizes = {name: abs(tables[-1].get(name, 0.0) - tables[0].get(name, 0.0)) for table in tables for name in table}
    names = sorted(sizes, key=lambda name: -sizes[name])
    rows = [[table.get(name, 0.0) for table in tables] for name in names]
    top = max(sizes.values(), default=0.0)
    found = [change(_words(*name), row, top) for name, row in zip(names[:MOST_ROWS], rows, strict=False)]
    rest = [sum(row[at] for row in rows[MOST_ROWS:]) for at in range(len(tables))]
    found += [change(say("c_rest", count=str(len(names) - MOST_ROWS)), rest, top)] if any(rest) else []
    return [part.label for part in parts], found


def _sums(fall: Waterfall) -> dict[tuple[str, str], float]:
    """(kind, short name of the kernel) -> seconds."""
    sums: dict[tuple[str, str], float] = {}
    for one in fall.slices:
        name = (one.kind, short_name(one.kernel, 48) if one.kernel else "")
        sums[name] = sums.get(name, 0.0) + one.seconds
    return sums


def _words(kind: str, kernel: str) -> str:
    words = say("fall_over") if kind == EXCESS else of_pair(WORDS[kind])
    return say("c_of", kernel=kernel, kind=words) if kernel else words
