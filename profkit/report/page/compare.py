"""Page of several runs: speed-up, change of time, counters that moved, the gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analyzers.compare import Ladder
from analyzers.timeline.compare import Programs
from analyzers.verdicts.speedup import shown
from profkit._version import __version__
from profkit.report import figures, programs
from profkit.report import ladder as view
from profkit.report.ladder import Chosen
from profkit.report.messages import of_roof, say
from profkit.report.page.data import Shown, data_of
from profkit.report.page.frame import render
from profkit.report.page.run import next_card
from profkit.report.page.shown import Kernels, falls_of, wall_of
from profkit.report.programs import Compared
from profkit.report.sections import answer, caveats
from profkit.report.sections.parts import correctness
from roofline import units
from roofline.figure.style import places


def page_of(done: Compared, limit: float | None = None) -> str:
    """Page of a comparison; `limit`: of the gate, as a fraction of the first step's time."""
    found = done.ladder
    parts = _parts(done.chosen, found) if isinstance(found, Ladder) else []
    data = {**data_of(parts, best=found.rungs[-1].label if parts else ""), "timeline": None}

    def make() -> dict[str, Any]:
        own = _ladder(done, found, parts, data["kernels"]) if isinstance(found, Ladder) else _programs(done, found)
        verdict = found.rungs[-1].verdict if isinstance(found, Ladder) else found.rungs[-1].since.verdict
        runs = dict.fromkeys(say("comma").join([answer.what(one), one.manifest.created]) for one in done.studies)
        names = list(dict.fromkeys(one.manifest.sample.id for one in done.studies))
        said, mood = gate(done, limit)
        return {
            "title": say("colon").join([*names[: len(names) == 1], " → ".join(rung.label for rung in found.rungs)]),
            "subtitle": "; ".join(runs),
            "mood": verdict if verdict in ("faster", "slower") else "",
            "gate": said,
            "gate_mood": mood,
            "stepwise": not parts,
            "kernel_note": say("kernel_note") if parts else "",
            "version": __version__,
            **dict.fromkeys(("falls", "budgets", "moved", "work"), ()),
            "slices": None,
            **own,
        }

    return render("compare.html", data, make)


def gate(done: Compared, limit: float | None) -> tuple[str, str]:
    """(outcome of the gate, its mood), "" where none was asked for. Raises ProfkitError."""
    if limit is None:
        return "", ""
    slower, unsure, known = done.slower(limit), done.inconclusive(limit), {"limit": units.percent(limit)}
    mood = "wrong" if slower else "" if unsure else "faster"
    if isinstance(done.ladder, Ladder):
        said = ", ".join(f"{rung.label} +{units.percent(1 / rung.total - 1)}" for rung in slower)
        return say("c_regressed", steps=said, **known) if slower else say("c_passed", **known), mood
    key = "st_gate_regressed" if slower else "st_gate_inconclusive" if unsure else "st_gate_passed"
    return say(key, steps=", ".join(rung.label for rung in slower or unsure), **known), mood


def _programs(done: Compared, found: Programs) -> dict[str, Any]:
    """Values of a page of programs."""
    head = programs.per(found, "p_one")
    return {
        "lead": programs.lead(found),
        "table": programs.sides_table(found),
        "cards": [],
        "note": say("st_note"),
        "budgets": [wall_of(rung.taken.budget, head, rung.label) for rung in found.rungs],
        "slices": programs.slices_table(found),
        "work": [(rung.label, programs.pieces_table(found, at)) for at, rung in enumerate(found.rungs) if rung.pieces],
        "caveats": programs.caveats_of(done.studies, found),
    }


def _ladder(done: Compared, ladder: Ladder, parts: Sequence[Shown], kernels: Kernels) -> dict[str, Any]:
    """Values of a page of implementations; each step's own caveats stand there once."""
    known = [part for part in parts if part.impl in part.study.waterfalls]
    head = say("p_now" if done.studies[0].manifest.impls else "p_now_gpu")
    impls = [next((one for one in each.study.manifest.impls if one.name == each.impl), None) for each in done.chosen]
    last = done.chosen[-1]
    own = dict.fromkeys(said for one in done.chosen for said in caveats.concerning(one.study, one.impl))
    return {
        "lead": _lead(ladder),
        "table": view.ladder_table(ladder, list(map(correctness, impls)), [of_roof(one.row) for one in done.chosen]),
        "cards": [next_card(last.study, last.impl, last.study.findings(), link="")],
        "note": "",
        "falls": list(falls_of(known, head, kernels, open_=len(known) - 1)),
        "moved": [(rung.label, list(map(view.moved, rung.moved))) for rung in ladder.rungs if rung.moved],
        "caveats": [*map(caveats.Said.of, ladder.caveats), *own],
    }


def _parts(chosen: Sequence[Chosen], ladder: Ladder) -> list[Shown]:
    """The steps in their order. Of one run they keep the colours that they have on its page."""
    colours = places(figures.ladder_order(chosen, ladder))
    pairs = zip(chosen, ladder.rungs, strict=True)
    return [Shown(one.study, one.impl, rung.label, colours[rung.label]) for one, rung in pairs]


def _lead(ladder: Ladder) -> str:
    first, last = ladder.rungs[0], ladder.rungs[-1]
    times = {"before": units.text(first.time, "s"), "after": units.text(last.time, "s")}
    how = {"last": last.label, "first": first.label, "ratio": shown(last.total, "ratio")}
    sure = say("c_sure", word=say(f"c_{last.verdict or 'inconclusive'}"), interval=view.interval(last))
    key = "c_two" if len(ladder.rungs) == 2 else "c_many"
    return say(key, **times, **how, sure=sure, step=shown(last.step, "ratio"))
