"""Page of several runs: speed-up, where the time changed, counters that changed, the gate."""

from __future__ import annotations

from typing import Any

from analyzers.compare import Ladder
from analyzers.timeline.compare import Programs
from analyzers.verdicts.verdict import PACED
from profkit._version import __version__
from profkit.report import figures
from profkit.report.compare import Compared
from profkit.report.messages import say
from profkit.report.page.data import Kernels, Shown, data_of, falls_of, wall_of
from profkit.report.page.frame import render
from profkit.report.page.run import Card, next_card, trust_card
from profkit.report.page.timeline import timeline_of
from profkit.report.sections import caveats, comparison, method
from profkit.report.sections.tables import correctness, kernel_note
from roofline.figure.style import places


def page_of(done: Compared, limit: float | None = None) -> str:
    """Page of a comparison; `limit`: of the gate, as a fraction of the first step's time."""
    found, parts = done.ladder, list[Shown]()
    if isinstance(found, Ladder):
        # Of one run they keep the colours that they have on its page.
        colours = places(figures.ladder_order(done.chosen, found))
        pairs = zip(done.chosen, found.rungs, strict=True)
        parts = [Shown(one.study, one.impl, rung.label, colours[rung.label]) for one, rung in pairs]
    data = {**data_of(parts, best=found.rungs[-1].label if parts else ""), "timelines": []}
    if isinstance(found, Programs):  # they share one timeline's size limit
        drawn = (
            (timeline_of(study, len(done.studies)), rung.label)
            for study, rung in zip(done.studies, found.rungs, strict=True)
        )
        data["timelines"] = [{**one, "label": label} for one, label in drawn if one]

    def make() -> dict[str, Any]:
        own = _ladder(done, found, parts, data["kernels"]) if isinstance(found, Ladder) else _programs(found)
        verdict, (lead, *also) = found.rungs[-1].since.verdict, done.lines()
        said, mood = done.gate(limit)
        bare = next((one for one in done.studies if not one.manifest.impls), None)
        right = [Card(say("p_right"), say("not_checked"), method.unchecked(bare))] if bare is not None else []
        return {
            "title": done.title,
            "subtitle": done.subtitle,
            "lead": lead,
            "also": also,
            "mood": verdict if verdict in ("faster", "slower") else "",
            "gate": said,
            "gate_mood": mood,
            "stepwise": not parts,
            "listed": say("op_list" if done.studies[-1].by_operator else "p_kernels"),
            "has_timeline": bool(data["timelines"]),
            "kernel_note": kernel_note(done.studies[-1]) if parts else "",
            "version": __version__,
            **dict.fromkeys(("falls", "budgets", "moved", "work"), ()),
            "slices": None,
            **own,
            "caveats": done.caveats,
            "cards": [*right, trust_card(done.caveats), *_next(done)],
            "note": say("c_note" if parts else "st_note"),
        }

    return render("compare.html", data, make)


def _next(done: Compared) -> list[Card]:
    """What to do: mend the comparison while it tells nothing, else the last step's own advice."""
    if done.ladder.rungs[-1].since.verdict not in PACED:
        fixes = [one.fix for one in caveats.weightiest(done.caveats) if one.fix][:1]
        return [Card(say("p_next"), fix, kind="wide", link="#caveats") for fix in fixes]
    if not done.chosen:
        return []
    last = done.chosen[-1]
    return [next_card(last.study, last.impl, last.study.findings(), link="", settled=True)]


def _programs(found: Programs) -> dict[str, Any]:
    head = comparison.per(found, "p_one")
    pieces = [(rung.label, comparison.pieces_table(found, at)) for at, rung in enumerate(found.rungs) if rung.pieces]
    return {
        "table": comparison.sides_table(found),
        "budgets": [wall_of(rung.budget, head, rung.label) for rung in found.rungs],
        "slices": comparison.slices_table(found),
        "work": pieces,
    }


def _ladder(done: Compared, ladder: Ladder, parts: list[Shown], kernels: Kernels) -> dict[str, Any]:
    known = [part for part in parts if part.impl in part.study.waterfalls]
    head = say("p_now" if done.studies[0].manifest.impls else "p_now_gpu")
    impls = [next((one for one in each.study.manifest.impls if one.name == each.impl), None) for each in done.chosen]
    return {
        "table": comparison.ladder_table(ladder, done.chosen, list(map(correctness, impls))),
        "falls": list(falls_of(known, head, kernels, open_=len(known) - 1)),
        "moved": [(rung.label, list(map(comparison.moved, rung.moved))) for rung in ladder.rungs if rung.moved],
    }
