"""report.md, ready to paste into a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analyzers.rules.rule import HOST, TIME
from analyzers.verdicts.verdict import brief
from profkit.report.explain import MINOR, lines_text, told
from profkit.report.layout import pipe_table, without_markup, words
from profkit.report.messages import say
from profkit.report.sections import answer, caveats, method, tables
from profkit.report.waterfall import shown, table
from profkit.study.study import Study

TOP_FINDINGS = 3
Section = tuple[str, str, list[str]]
"""Heading, note and blocks; a section with only empty blocks is left out."""


def report(study: Study) -> str:
    """report.md of a run."""
    blocks = list(_head(study))
    for heading, note, body in (*_answers(study), *_evidence(study), *_origin(study)):
        if any(body):
            blocks += [f"## {heading}", words(note), *body]
    return without_markup("\n\n".join(filter(None, blocks)).rstrip() + "\n")


def _head(study: Study) -> Iterator[str]:
    yield f"# {answer.what(study)}"
    yield "\n".join(f"**{line}**  " for line in answer.first_lines(study)).rstrip()
    if missing := method.counters_note(study):
        yield f"> {missing}"
    yield pipe_table(tables.parts_table(study))
    for line in (*method.notes(study), method.right_line(study)):
        yield _stopped(line)


def _answers(study: Study) -> Iterator[Section]:
    """Where the time goes, and what to do about it."""
    # What the host could win of a step is spread over several of its slices.
    whole = shown(study, [one for one in study.findings() if one.kernel or study.first_step is None])
    if whole is not None and whole.blocks:
        named = study.first_step is None and (study.best is not None or len(study.parts) > 1)
        head = f"{whole.name}: {whole.head}" if named else whole.head
        note = _stopped(whole.line) if study.first_step is None else ""
        yield say("p_fall_title"), note, [pipe_table(table(whole.blocks, head, whole.time))]
    yield say("hole_title"), say("hole_note"), list(map(pipe_table, tables.holes_tables(study)))
    placed = method.placed(study)
    whose = say("md_whose", name=study.best.name) if study.best is not None else ""
    note = say("p_ranked_wall") if study.stepwise and not placed else say("md_gains", whose=whose)
    yield say("md_next"), note, [_listed(_findings(study))]
    if placed:
        yield "Roofline", "", ["![roofline](roofline.png)"]
    elif (study.path / "waterfall.png").exists():
        yield say("p_fall_title"), "", ["![where the time goes](waterfall.png)"]


def _findings(study: Study) -> Iterator[str]:
    """Largest known gains of the best implementation, else of all ranges."""
    found = [one for one in study.findings() if one.severity in (TIME, HOST) and not one.ratio < MINOR]
    if study.best is not None:
        found = [one for one in found if one.impl == study.best.name]
    yield from (told(one, study) for one in found[:TOP_FINDINGS])


def _evidence(study: Study) -> Iterator[Section]:
    """Shapes, passes, source lines, kernels and timelines."""
    yield say("by_shape"), say("shapes_note"), [pipe_table(tables.shapes_table(study))]
    by = ", ".join(study.passes[-1][1].inputs) if study.passes else ""
    yield say("by_pass"), say("passes_note", by=by), [pipe_table(tables.passes_table(study))]
    found = lines_text(study.lines)
    yield say("md_lines"), say("md_lines_note"), [f"```\n{found}\n```" if found else ""]
    longest = tables.kernels_table(study, spans=True)
    hidden = len(study.hottest) - len(longest.rows)
    more = say("md_names_more", count=str(hidden)) if hidden else say("md_names")
    if longest.rows:
        yield (
            say("op_list" if study.by_operator else "p_kernels"),
            tables.kernel_note(study),
            [pipe_table(longest), more],
        )
    yield say("md_timeline"), "", [_listed(list(tables.thread_lines(study)))]
    yield "compute-sanitizer", "", [_listed(line.replace("|", "\\|") for line in caveats.sanitizer_lines(study))]


def _origin(study: Study) -> Iterator[Section]:
    """Method, caveats, failures, and the command that measures again."""
    manifest = study.manifest
    right = ", ".join(f"{one.name} {one.exactness}" for one in manifest.candidates if one.exactness)
    lines = [method.timing_line(study), say("md_right", right=right) if right else "", *method.inferred_lines(study)]
    lines += [f"{name}{say('colon')}{value}" for name, value in method.facts(study)]
    lines.append(f"profkit {manifest.profkit}, {manifest.created}")
    yield say("md_how"), "", [_listed(lines)]
    weak = [one.with_fix() for one in caveats.that_matter(study)]
    yield say("md_caveats"), "", [_listed(weak), _stopped(caveats.more_caveats(study))]
    for impl, tail in caveats.last_lines(study):
        yield f"{impl.name}: {impl.status}", brief(impl.reason), ["```\n" + tail.replace("```", "'''") + "\n```"]
    if line := method.again(study):
        how = "-c constraints.txt -e ." if manifest.sample.path else "."
        yield say("md_again"), "", [f"```\npip install {how}    # in a checkout of profkit\n{line}\n```"]


def _listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {words(line)}" for line in items if line)


def _stopped(line: str) -> str:
    """A sentence with a full stop."""
    return f"{line}{say('stop').rstrip()}" if line else ""
