"""report.html of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profkit.report import sections, units
from profkit.report.messages import named, say, translated
from profkit.report.page.answer import answer_of
from profkit.report.page.data import Shown, data_of, samples_of, shown_of, timeline_of
from profkit.report.page.frame import render
from profkit.report.page.shown import falls_of, findings_of, shares_of, walls_of
from profkit.report.waterfall import shown

if TYPE_CHECKING:
    from profkit.study.study import Study

MOST_PARTS = 40
"""Parts whose work the page lists: a program may have hundreds of ranges."""
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
    echoes, kernels = sections.echoes(study), data["kernels"]
    found = [one for one in study.findings() if one.impl not in echoes]
    has_roofline = sections.placed(study)
    matter = sections.that_matter(study)
    whole = shown(study, most=0)
    falls = has_roofline or not study.stepwise
    now = say("p_now" if study.manifest.impls else "p_now_counted" if study.stepwise else "p_now_gpu")
    facts = [(key, value) for key, value in _facts(study, roofs=has_roofline) if value]
    return {
        "title": say("p_on", sample=study.manifest.sample.id, device=sections.device(study)),
        "subtitle": _subtitle(study),
        "answer": answer_of(study, found),
        "shares": shares_of(whole.blocks, whole.time) if whole is not None else [],
        "falls": list(falls_of(_in_sight(study, parts), now, kernels, found)) if falls else [],
        "budgets": list(walls_of(study, found, kernels)),
        "holes": sections.holes_tables(study),
        "has_timeline": data["timeline"] is not None,
        "timeline": sections.timeline_lines(study) if not study.manifest.impls else [],
        "told": list(findings_of(study, found)),
        "has_roofline": has_roofline,
        # Without FLOP there is nothing to plot: the page has bars of bandwidth, and says so.
        "plotted": not kernels or any((one["flops"] or 0) > 0 for one in kernels),
        "kernel_note": sections.kernel_note(study),
        "timed": bool(data["timings"]),
        "timing": sections.timing_line(study),
        "impls": bool(study.manifest.impls),
        "facts": facts,
        "facts_fold": say("comma").join(dict.fromkeys(key for key, _ in facts)),
        "matter": matter,
        "other": [one for one in sections.all_caveats(study) if one not in matter],
        "version": study.manifest.profkit,
    }


def _subtitle(study: Study) -> str:
    """What was measured: its inputs, where it lies, and when."""
    manifest = study.manifest
    made = say("p_imported" if manifest.sample.kind == "import" else "p_measured", created=manifest.created)
    return say("comma").join(part for part in (*manifest.inputs, manifest.sample.path, made) if part)


def _in_sight(study: Study, parts: Sequence[Shown]) -> list[Shown]:
    """Parts with a waterfall: implementations as ranked, of ranges the longest first."""
    known = [part for part in parts if part.impl in study.waterfalls and part.impl not in sections.echoes(study)]
    ranked = known if study.manifest.impls else sorted(known, key=lambda part: -study.waterfalls[part.impl].time)
    return ranked[:MOST_FALLS]


def _facts(study: Study, *, roofs: bool = True) -> Iterator[tuple[str, str]]:
    """Device, versions, counters, files, work and ceilings."""
    manifest, counters = study.manifest, study.manifest.counters
    comma = say("comma")
    known = {k: v for k, v in manifest.device.items() if k in ("name", "cc", "sms", "driver")}
    yield say("device"), comma.join(f"{named(k)} {v}" for k, v in known.items())
    yield say("p_versions"), comma.join(f"{k} {v}" for k, v in manifest.versions.items())
    passes = {"passes": str(counters.passes or "?"), "clock": counters.clock_control}
    collected = say("p_passes", version=counters.version, **passes) if counters.version else "Nsight Compute"
    missing = say("colon").join(translated(text) for text in (counters.state, counters.why) if text)
    yield say("p_counters"), collected if counters.state == "collected" else missing
    yield say("p_seeds"), comma.join(map(str, manifest.seeds))
    yield say("p_files"), comma.join(f"{ref.path} sha256 {ref.sha256[:16]}" for ref in manifest.sample.files.values())
    for work in study.analysis.works[:MOST_PARTS]:
        flops = ", ".join(f"{units.text(v, 'FLOP')} {pipe}" for pipe, v in work.flops.items()) or say("p_no_flop")
        amounts = say("p_compulsory", flops=flops, bytes=units.text(work.bytes, "B"))
        yield say("p_work", source=translated(work.source)), amounts
    for source, known_roofs in sections.ceilings_of(study).items() if roofs else ():
        yield say("p_roof"), say("p_roof_from", roofs=", ".join(known_roofs), source=translated(source))
    yield say("p_again"), sections.again(study)
