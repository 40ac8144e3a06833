"""report.md: ready to paste into a PR readme."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzers.rules.rule import TIME
from analyzers.verdicts.verdict import brief
from profkit.report import lines, units
from profkit.report.explain import MINOR, gain, worded
from profkit.report.layout import Column, Table, code, column, pipe_table, without_markup, words
from profkit.report.messages import say
from profkit.report.names import short_name
from profkit.report.sections.answer import first_lines, title
from profkit.report.sections.caveats import last_lines, more_caveats, sanitizer_lines, that_matter
from profkit.report.sections.kernels import (
    holes_tables,
    kernel_note,
    kernels_table,
    placed,
    timeline_lines,
)
from profkit.report.sections.method import (
    again,
    below_least,
    ceilings_of,
    counted,
    counters_line,
    inferred_lines,
    noted_line,
    paired_line,
    timing_line,
    uncounted_line,
)
from profkit.report.sections.parts import parts_table, passes_table, shapes_table
from profkit.report.waterfall import shown, table

if TYPE_CHECKING:
    from profkit.study.study import Study

TOP_FINDINGS = 3


@dataclass(frozen=True)
class Section:
    """A heading of report.md: `note`, list, tables, block to copy, `after`."""

    heading: str
    note: str = ""
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    block: str = ""
    after: str = ""


def _holes(study: Study) -> Iterator[Section]:
    tables = holes_tables(study)
    if tables:
        yield Section(say("hole_title"), say("hole_note"), tables=tuple(tables))


def _findings(study: Study) -> Iterator[Section]:
    """The largest gains known of the best implementation, or of any range."""
    found = [one for one in study.findings() if one.severity == TIME and not one.ratio < MINOR]
    if study.best is not None:
        found = [one for one in found if one.impl == study.best.name]
    lines = []
    for one in found[:TOP_FINDINGS]:
        words, then, _ = worded(one, study)
        where = f" in {code(short_name(one.kernel))}" if one.kernel else ""
        lines.append(f"**{gain(one)}**{where}: {words}. Next: {then}.")
    if lines:
        whose = f" of {study.best.name}" if study.best is not None else ""
        note = f"The largest gains known{whose}: upper bounds, which do not add up. `profkit explain` has all of them."
        note = say("p_ranked_wall") if study.stepwise and not placed(study) else note
        yield Section("What next", note, tuple(lines))


def _plot(study: Study) -> Iterator[Section]:
    if placed(study):
        yield Section("Roofline", after="![roofline](roofline.png)")
    elif (study.path / "waterfall.png").exists():
        yield Section(say("p_fall_title"), after="![where the time goes](waterfall.png)")


def _shapes(study: Study) -> Iterator[Section]:
    table = shapes_table(study)
    if table.rows:
        yield Section(say("by_shape"), say("shapes_note"), tables=(table,))


def _passes(study: Study) -> Iterator[Section]:
    table = passes_table(study)
    if table.rows:
        by = ", ".join(study.passes[-1][1].inputs)
        yield Section(say("by_pass"), say("passes_note").format(by=by), tables=(table,))


def _lines(study: Study) -> Iterator[Section]:
    found = tuple(lines.tables(study.lines))
    if found:
        note = "What the sampler saw warps wait for, charged to the line that makes them wait. A bound is a slice of its kernel's."
        yield Section("Source lines", note, tables=found)


def _kernels(study: Study) -> Iterator[Section]:
    table = kernels_table(study, spans=True)
    if not table.rows:
        return
    note = kernel_note(study)
    hidden = len(study.hottest) - len(table.rows)
    more = f"{hidden} more kernels, and all names in full, are in kernels.csv."
    yield Section("Kernels", note, tables=(table,), after=more if hidden else "Names in full are in kernels.csv.")


def _lower_bound(study: Study) -> Iterator[Section]:
    rows = [part.row for part in study.ranked if part.row is not None and math.isfinite(part.row["lower_bound_ratio"])]
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
            column("lower bound", rows, "lower_bound_time", "s"),
            column("x lower bound", rows, "lower_bound_ratio", ""),
            Column("lower bound set by", [str(row["lower_bound_bound_by"]) for row in rows]),
            column("hard lower bound", rows, "lower_bound_hard", "s"),
            column("DRAM", rows, "bytes", "B"),
            column("x compulsory", rows, "compulsory_ratio", ""),
            Column("counted by", [str(row["work_source"]) for row in rows]),
        ]
    )
    note = below_least(study)
    yield Section("How far from the lower bound", lines=tuple(lines), tables=(table,), after=f"{note}." if note else "")


def _timelines(study: Study) -> Iterator[Section]:
    lines = timeline_lines(study)
    if lines:
        yield Section("Timeline", lines=tuple(lines))


def _sanitizer(study: Study) -> Iterator[Section]:
    found = sanitizer_lines(study)
    if found:
        yield Section("compute-sanitizer", lines=tuple(line.replace("|", "\\|") for line in found))


def _method(study: Study) -> Iterator[Section]:
    manifest, counters = study.manifest, study.manifest.counters
    lines = [timing_line(study)]
    checks = [check for impl in manifest.candidates for check in impl.checks]
    if checks:
        right = ", ".join(f"{one.name} {one.exactness}" for one in manifest.candidates if one.exactness)
        seeds = f"{len(manifest.seeds)} fresh inputs, seeds {manifest.seeds}"
        lines.append(f"correctness: {seeds}" + (f"; right to: {right}" if right else ""))
    lines += inferred_lines(study)
    if counted(study) and counters.version:
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
    lines += [f"ceilings: {', '.join(known)}: {source}" for source, known in ceilings_of(study).items()]
    lines += [", ".join(f"{key} {value}" for key, value in facts.items())]
    lines.append(f"profkit {manifest.profkit}, {manifest.created}")
    yield Section("How it was measured", lines=tuple(line for line in lines if line))


def _caveats(study: Study) -> Iterator[Section]:
    """Caveats that matter; the others are counted."""
    said = [
        one.what + (f": {one.how_much}" if one.how_much else "") + (f". Fix: {one.fix}" if one.fix else "")
        for one in that_matter(study)
    ]
    more = more_caveats(study)
    if said or more:
        yield Section("Caveats", lines=tuple(said), after=f"{more}." if more else "")


def _trouble(study: Study) -> Iterator[Section]:
    for impl, tail in last_lines(study):
        yield Section(f"{impl.name}: {impl.status}", brief(impl.reason), block=tail.replace("```", "'''"))


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
        _lower_bound,
        _timelines,
        _sanitizer,
        _method,
        _caveats,
        _trouble,
        _again,
    )
    return [section for make in makers for section in make(study)]


def report(study: Study) -> str:
    """report.md of a run."""
    blocks = [*_head(study), *(_section(one) for one in (*_fall(study), *sections(study)))]
    return without_markup("\n\n".join(blocks).rstrip() + "\n")


def _head(study: Study) -> Iterator[str]:
    yield f"# {title(study)}"
    yield "\n".join(f"**{line}**  " for line in first_lines(study)).rstrip()
    missing, fix = counters_line(study), study.manifest.counters.fix
    if missing:
        yield f"> {missing}." + (f" Fix: {fix}." if fix else "")
    parts = parts_table(study)
    yield from [pipe_table(parts)] if parts.rows else []
    paired, uncounted = paired_line(study), uncounted_line(study)
    yield from [f"{paired}."] if paired else []
    yield from [line for line in (uncounted, noted_line(study)) if line]


def _fall(study: Study) -> Iterator[Section]:
    """Waterfall of the best implementation, or of one step of a program, as a table."""
    # What the host could win of a step is spread over several of its slices.
    found = [one for one in study.findings() if one.kernel or study.first_step is None]
    whole = shown(study, found)
    if whole is not None and whole.blocks:
        named = study.first_step is None and (study.best is not None or len(study.parts) > 1)
        head = f"{whole.name}: {whole.head}" if named else whole.head
        note = f"{whole.line}." if whole.line and study.first_step is None else ""
        yield Section(say("p_fall_title"), note, tables=(table(whole.blocks, head, whole.time),))


def _section(one: Section) -> str:
    blocks = [f"## {one.heading}", words(one.note), "\n".join(f"- {words(line)}" for line in one.lines)]
    blocks += [*map(pipe_table, one.tables), f"```\n{one.block}\n```" if one.block else "", one.after]
    return "\n\n".join(block for block in blocks if block)
