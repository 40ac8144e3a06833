"""report.html of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profkit.report.messages import say
from profkit.report.page.answer import answer_of
from profkit.report.page.data import Shown, data_of, samples_of, shown_of, timeline_of
from profkit.report.page.frame import render
from profkit.report.page.shown import falls_of, findings_of, shares_of, walls_of
from profkit.report.sections import answer, caveats, kernels, method
from profkit.report.sections.parts import echoes
from profkit.report.waterfall import shown

if TYPE_CHECKING:
    from profkit.study.study import Study

MOST_FALLS = 12


def page(study: Study) -> str:
    """The whole page; it opens in the language in force, the reader may change it."""
    parts = shown_of(study)
    best = study.best.name if study.best is not None else ""
    data = {
        **data_of(parts, best=best),
        "timeline": timeline_of(study),
        "timings": samples_of(parts),
    }
    return render("page.html", data, lambda: _values(study, parts, data))


def _values(study: Study, parts: Sequence[Shown], data: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows, in the language in force."""
    inside, rows = echoes(study), data["kernels"]
    found = [one for one in study.findings() if one.impl not in inside]
    has_roofline = method.placed(study)
    matter = caveats.that_matter(study)
    whole = shown(study, most=0)
    falls = has_roofline or not study.stepwise
    now = say("p_now" if study.manifest.impls else "p_now_counted" if study.stepwise else "p_now_gpu")
    again = method.again(study)
    facts = method.facts(study) + ([(say("p_again"), again)] if again else [])
    return {
        "title": say("p_on", sample=study.manifest.sample.id, device=answer.device(study)),
        "subtitle": _subtitle(study),
        "answer": answer_of(study, found),
        "shares": shares_of(whole.blocks, whole.time) if whole is not None else [],
        "falls": list(falls_of(_in_sight(study, parts), now, rows, found)) if falls else [],
        "budgets": list(walls_of(study, found, rows)),
        "holes": kernels.holes_tables(study),
        "has_timeline": data["timeline"] is not None,
        "timeline": kernels.timeline_lines(study) if not study.manifest.impls else [],
        "told": list(findings_of(study, found)),
        "has_roofline": has_roofline,
        # Without FLOP there is nothing to plot: the page has bars of bandwidth, and says so.
        "plotted": not rows or any((one["flops"] or 0) > 0 for one in rows),
        "kernel_note": kernels.kernel_note(study),
        "timed": bool(data["timings"]),
        "timing": method.timing_line(study),
        "impls": bool(study.manifest.impls),
        "facts": facts,
        "facts_fold": say("comma").join(dict.fromkeys(key for key, _ in facts)),
        "matter": matter,
        "other": [one for one in caveats.all_caveats(study) if one not in matter],
        "version": study.manifest.profkit,
    }


def _subtitle(study: Study) -> str:
    """What was measured: its inputs, where it lies, and when."""
    manifest = study.manifest
    made = say("p_imported" if manifest.sample.kind == "import" else "p_measured", created=manifest.created)
    return say("comma").join(part for part in (*manifest.inputs, manifest.sample.path, made) if part)


def _in_sight(study: Study, parts: Sequence[Shown]) -> list[Shown]:
    """Parts with a waterfall: implementations as ranked, of ranges the longest first."""
    known = [part for part in parts if part.impl in study.waterfalls and part.impl not in echoes(study)]
    ranked = known if study.manifest.impls else sorted(known, key=lambda part: -study.waterfalls[part.impl].time)
    return ranked[:MOST_FALLS]
