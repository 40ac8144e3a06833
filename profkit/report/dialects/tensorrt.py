"""--for tensorrt: the hackathon's write-up, with marked gaps for the author."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import msgspec

from analyzers.compare import Ladder
from analyzers.rules.rule import TIME
from analyzers.verdicts.speedup import FORMULAS, shown, speedup
from profkit.errors import ProfkitError
from profkit.report import figures
from profkit.report.compare import Chosen, choose, ladder_of
from profkit.report.dialects import Written
from profkit.report.explain import gain, headline, proof, worded
from profkit.report.layout import Table, code, pipe_table
from profkit.report.messages import language, say, spoken, translated
from profkit.report.names import short_name
from profkit.report.sections import answer, caveats, method, tables
from profkit.report.sections.comparison import ladder_table, moved
from profkit.study.study import Study, open_study
from roofline import units

FIGURES = ("max_abs", "mean_abs", "median_abs", "max_rel", "mean_rel", "median_rel")
"""Errors in the template: largest, mean and median, absolute and relative."""
SECTIONS = (
    *("environment", "baseline", "hot", "findings", "steps"),
    *("accuracy", "performance", "conclusion", "commands"),
)
"""Sections of the template in order; each is a method of WriteUp."""


def write(
    runs: Sequence[str | Study],
    layers: str = "",
    others: Sequence[str] = (),
    notes: Path | None = None,
) -> Written:
    """Write the write-up; without runs an empty template."""
    alone = open_study(runs[0]) if len(runs) == 1 and ":" not in str(runs[0]) else None
    program = alone if alone is not None and not alone.manifest.impls else None
    chosen = _expanded(runs) if runs and program is None else []
    ladder = ladder_of(chosen) if len(chosen) > 1 else None
    file = "ladder.png" if language() == "en" else f"ladder.{language()}.png"
    pictures = {file: figures.png(figures.ladder_scene(chosen, ladder))} if ladder is not None else {}
    found = WriteUp(
        chosen=chosen,
        ladder=ladder,
        layers=open_study(layers) if layers else None,
        program=program,
        figure=next(iter(pictures), ""),
        foreign=spoken() != language(),
        others=[open_study(name) for name in others],
        notes=read_notes(notes) if notes is not None else {},
    )
    return Written(found.text(), pictures)


def read_notes(path: Path) -> dict[str, str]:
    """Read the author's texts from TOML: `name = "..."`, and `steps.NAME` under [steps]."""
    try:
        data = msgspec.toml.decode(path.read_bytes(), type=dict[str, str | dict[str, str]])
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise ProfkitError(f"{path}: {error}", fix='give a TOML file: model = "...", [steps] NAME = "..."') from error
    groups = {key: value if isinstance(value, dict) else {"": value} for key, value in data.items()}
    return {f"{key}.{name}" if name else key: text for key, group in groups.items() for name, text in group.items()}


def _expanded(names: Sequence[str | Study]) -> list[Chosen]:
    """Expand one run to its reference and its candidates that are not slower, slowest first."""
    if len(names) != 1 or (isinstance(names[0], str) and ":" in names[0]):
        return choose(names)
    study = choose(names)[0].study
    timed = {str(row["impl"]): float(row["time"]) for row in study.metrics.to_dict("records") if row["time"] > 0}
    sound = {part.name for part in study.parts if part.impl is not None and part.impl.ok}
    most = timed.get(study.analysis.reference, math.inf)
    order = sorted(timed, key=lambda name: (name != study.analysis.reference, -timed[name]))
    return [Chosen(study, name) for name in order if name in sound and timed[name] <= most]


@dataclass(frozen=True)
class WriteUp:
    """Sources of a write-up, each optional; a section is a list of lines.

    program: a run without implementations; others: runs of the same steps on other inputs; notes: the author's text for
    each gap.
    """

    chosen: Sequence[Chosen] = ()
    ladder: Ladder | None = None
    layers: Study | None = None
    program: Study | None = None
    others: Sequence[Study] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    figure: str = ""
    foreign: bool = False

    @cached_property
    def studies(self) -> list[Study]:
        """Runs of the steps, or of the program."""
        known = [*(one.study for one in self.chosen), *filter(None, [self.program])]
        return list({one.path.resolve(): one for one in known}.values())

    def text(self) -> str:
        """The write-up in Markdown."""
        # An engine was built only where its profile says so.
        title = "title_plain" if self.layers is None and self.studies else "title"
        sample = self.studies[0].manifest.sample.id if self.studies else "…"
        lines = [f"# {say(title, sample=sample)}", "", self.gap("model"), ""]
        for at, key in enumerate(SECTIONS, 1):
            lines += [f"## {at} {say(key)}", "", "\n".join(getattr(self, key)()).rstrip("\n"), ""]
        return "\n".join(lines).rstrip() + "\n"

    def gap(self, key: str, name: str = "") -> str:
        """The author's text for a gap, else a placeholder."""
        written = self.notes.get(name or key, "").strip()
        return written or say("gap", what=say(key))

    def environment(self) -> Iterator[str]:
        if not self.studies:
            yield self.gap("device")
            return
        wanted = [say(key) for key in ("device", "p_versions", "p_counters")]
        rows = [[name, value] for name, value in method.facts(self.studies[0]) if name in wanted]
        rows.append([say("created"), self.studies[0].manifest.created])
        yield pipe_table(Table([say("item"), say("value")], rows))

    def baseline(self) -> Iterator[str]:
        if not self.chosen:
            told = answer.first_lines(self.program) if self.program is not None else []
            yield from [f"- {line}" for line in told] or [self.gap("no_baseline")]
            return
        first = self.chosen[0]
        yield f"- {headline(first.study, first.impl)}"
        if first.study.manifest.inputs:
            yield f"- {_labelled('p_inputs', ', '.join(first.study.manifest.inputs))}"

    def hot(self) -> Iterator[str]:
        if (layers := self.layers) is not None:
            yield pipe_table(tables.kernels_table(layers, spans=True)) + "\n"
            yield say("layers_note")
            yield from (f"- {caveat.line()}" for caveat in caveats.all_caveats(layers))
            return
        ends = [self.chosen[at].impl for at in (0, -1)] if self.chosen else []
        longest = [pipe_table(tables.kernels_table(study, ends, spans=True)) for study in self.studies]
        yield "\n\n".join(filter(None, longest)) or self.gap("no_hot")

    def findings(self) -> Iterator[str]:
        """First three findings of each step; a fix common to several appears once."""
        seen = set[str]()
        steps = [(step.study, step.impl) for step in self.chosen]
        steps += [(study, part.name) for study in self.studies if study is self.program for part in study.parts]
        for study, impl in steps:
            mine = [one for one in study.findings() if one.severity == TIME and one.impl == impl]
            for one in mine[:3]:
                title, then, expect = worded(one, study)
                where = say("bound_why", bound=title, why=code(short_name(one.kernel))) if one.kernel else title
                yield f"- **{impl}**{say('colon')}{where}" if impl else f"- {where}"
                because = say("semicolon").join(map(proof, one.evidence))
                yield f"  - {gain(one)}{say('semicolon')}{_labelled('because', because)}"
                if then not in seen:
                    yield f"  - {_labelled('next', then)}"
                    yield f"  - {_labelled('expect', expect)}"
                seen.add(then)
        if not seen:
            yield self.gap("no_hot")

    def steps(self) -> Iterator[str]:
        ladder = self.ladder
        if ladder is None:
            yield self.gap("no_steps")
            return
        yield pipe_table(ladder_table(ladder, self.chosen), (0, 1))
        if len(self.studies) == 1:
            yield "\n" + say("c_note")
        if self.figure:
            yield f"\n![{say('figure')}]({self.figure})"
            yield from [f"\n{say('fig_foreign')}"] if self.foreign else []
        for before, rung in pairwise(ladder.rungs):
            yield f"\n**{rung.label}**{say('colon')}{self.gap('why_step', f'steps.{rung.impl}')}"
            if rung.moved:
                listed = say("semicolon").join(moved(one) for one in rung.moved)
                yield "\n" + _labelled("moved", listed)
            if before.kernel != rung.kernel and before.kernel and rung.kernel:
                names = {"before": code(short_name(before.kernel)), "after": code(short_name(rung.kernel))}
                yield "\n" + say("other_kernel", **names)
        for caveat in ladder.caveats:
            yield f"\n- {caveats.Said.of(caveat).line()}"

    def accuracy(self) -> Iterator[str]:
        checked = [one for study in self.studies for one in study.manifest.candidates if one.checks]
        if not checked:
            yield self.gap("no_eval")
            return
        head = [say(name) for name in ("implementation", "input_sets", *FIGURES, "correct")]
        columns = [
            [one.name for one in checked],
            [str(len(one.checks)) for one in checked],
            *([_largest(getattr(check, name) for check in one.checks) for one in checked] for name in FIGURES),
            [tables.correctness(one) for one in checked],
        ]
        # An error of 0 stays, one that nobody measured goes.
        known = [(name, *cells) for name, cells in zip(head, columns, strict=True) if set(cells) != {units.MISSING}]
        head, *rows = map(list, zip(*known, strict=True))
        yield pipe_table(Table(head, rows))
        said = [f"{impl.name}: {impl.exactness}" for impl in checked if impl.exactness]
        if said:
            yield "\n" + say("thresholds", limits=say("semicolon").join(said))
        yield "\n" + say("rel_note")
        if any(getattr(check, name) is None for one in checked for check in one.checks for name in FIGURES):
            yield "\n" + self.gap("mean")

    def performance(self) -> Iterator[str]:
        for study in self.studies:
            yield pipe_table(tables.parts_table(study)) + "\n"
            yield f"{method.timing_line(study)}\n"
        if self.others:
            steps = list(dict.fromkeys(one.impl for one in self.chosen))
            runs = sorted([*self.studies, *self.others], key=elements)
            yield by_input(runs, steps)
        elif not self.studies:
            yield self.gap("no_eval")

    def conclusion(self) -> Iterator[str]:
        ladder = self.ladder
        if ladder is not None:
            first, last = ladder.rungs[0], ladder.rungs[-1]
            times = f"{units.text(first.time, 's')} -> {units.text(last.time, 's')}"
            whole = say("comma").join((times, f"{say('speedup')} {shown(last.total, 'ratio')}"))
            yield f"- {first.label} -> {last.label}{say('colon')}{whole}"
        yield self.gap("lessons")

    def commands(self) -> Iterator[str]:
        yield self.gap("docker")
        lines = list(map(method.again, self.studies))
        if lines:
            yield "\n```sh\n" + "\n".join(dict.fromkeys(lines)) + "\n```"


def _labelled(key: str, text: str) -> str:
    return f"{say(key)}{say('colon')}{text}"


def _largest(values: Iterable[float | None]) -> str:
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    return f"{max(known):.3g}" if known else "-"


def by_input(studies: Sequence[Study], steps: Sequence[str]) -> str:
    """One row per run: its inputs, the first step's time, times and speed-ups of the others."""
    known = [{str(row["impl"]): float(row["time"]) for row in study.metrics.to_dict("records")} for study in studies]
    scale, unit = units.scale("s", [time for times in known for time in times.values()])
    rows = []
    for study, times in zip(studies, known, strict=True):
        first, *others = (times.get(step, math.nan) for step in steps)
        told = [f"{units.digits(time / scale)} ({shown(speedup(first, time), 'ratio')})" for time in others]
        rows.append([", ".join(study.manifest.inputs) or study.path.name, units.digits(first / scale), *told])
    head = [say("p_inputs"), *(f"{step} [{unit}]" for step in steps)]
    note = say("convention", formula=translated(FORMULAS["ratio"]), base=say("base_time"))
    return f"{say('by_input')}\n\n{pipe_table(Table(head, rows), (0,))}\n\n{note}"


def elements(study: Study) -> int:
    """Total elements of a run's inputs; 0 if not described."""
    shapes = (re.search(r"\[([\d, ]+)\]", one) for one in study.manifest.inputs)
    return sum(math.prod(int(size) for size in found[1].split(",")) for found in shapes if found is not None)
