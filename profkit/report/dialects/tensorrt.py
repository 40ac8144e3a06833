"""--for tensorrt: the hackathon's write-up from runs, trtexec exports and evaluation tables.

Numbers come from files alone. What no file says is left as a marked gap for the author.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

import profkit.report.dialects.tensorrt_tables as tables
from analyzers.compare import Ladder
from analyzers.rules.rule import TIME
from analyzers.speedup import FORMULAS, shown
from profkit.contests.hackathon import encoder_table
from profkit.contests.hackathon.encoder_table import THRESHOLDS
from profkit.contests.hackathon.slips import check_evaluation
from profkit.errors import ProfkitError
from profkit.report import sections, units
from profkit.report.chinese import said_in
from profkit.report.dialect import FILE, Dialect, Written
from profkit.report.explain import gain, headline, proof, runnable, worded
from profkit.report.ladder import Chosen, choose, ladder_of, moved, scene_of
from profkit.report.layout import Table, code, pipe_table
from profkit.report.names import short_name, short_names
from profkit.report.words import named, say

if TYPE_CHECKING:
    import pandas as pd

    from profkit.rundir.manifest import Impl
    from profkit.study.study import Study

FIGURES = ("max_abs", "mean_abs", "median_abs", "max_rel", "mean_rel", "median_rel")
"""Errors of a check that the template asks for: largest, mean and median, absolute and relative."""


@dataclass(frozen=True)
class Inputs:
    """What a write-up is made of; any part may be missing.

    evaluations: (name, parts) in order, baseline first. others: runs of the same steps on other inputs. notes: the
    author's own words, by the name of the gap they fill.
    """

    chosen: Sequence[Chosen] = ()
    ladder: Ladder | None = None
    layers: pd.DataFrame | None = None
    evaluations: tables.Evaluations = ()
    others: Sequence[Study] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    commands: Sequence[str] = ()
    figure: str = ""
    foreign: bool = False


def write(
    runs: Sequence[str | Study],
    lang: str,
    trtexec: Sequence[Path] = (),
    evaluations: Sequence[Path] = (),
    others: Sequence[str] = (),
    notes: Path | None = None,
) -> Written:
    """The write-up; of nothing at all a frame of gaps."""
    from profkit.report import figures  # pandas and matplotlib stay out of start-up
    from profkit.study.study import open_study

    chosen = _expanded(runs) if runs else []
    ladder = ladder_of(chosen) if len(chosen) > 1 else None
    spoken = figures.spoken(lang)
    file = "ladder.png" if lang == "en" else f"ladder.{lang}.png"
    pictures = {file: figures.png(scene_of(chosen, ladder, lang=spoken))} if ladder is not None else {}
    inputs = Inputs(
        chosen=chosen,
        ladder=ladder,
        layers=tables.read_layers(trtexec),
        evaluations=[(path.stem, encoder_table.read(path)) for path in evaluations],
        figure=next(iter(pictures), ""),
        foreign=spoken != lang,
        others=[open_study(name) for name in others],
        notes=read_notes(notes) if notes is not None else {},
    )
    return Written(write_up(inputs, lang), pictures)


def read_notes(path: Path) -> dict[str, str]:
    """The author's words from a TOML file: `name = "..."`, and `steps.NAME` under [steps].

    Raises ProfkitError for a file that is not that.
    """
    try:
        data = msgspec.toml.decode(path.read_bytes(), type=dict[str, str | dict[str, str]])
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise ProfkitError(f"{path}: {error}", fix='give a TOML file: model = "...", [steps] NAME = "..."') from error
    groups = {key: value if isinstance(value, dict) else {"": value} for key, value in data.items()}
    return {f"{key}.{name}" if name else key: text for key, group in groups.items() for name, text in group.items()}


def _expanded(names: Sequence[str | Study]) -> list[Chosen]:
    """One run alone is its own ladder: the reference, then its candidates from slow to fast."""
    if len(names) != 1 or (isinstance(names[0], str) and ":" in names[0]):
        return choose(names)
    study = choose(names)[0].study
    timed = {str(row["impl"]): float(row["time"]) for row in study.metrics.to_dict("records") if row["time"] > 0}
    sound = {part.name for part in study.parts if part.impl is not None and part.impl.ok}
    order = sorted(timed, key=lambda name: (name != study.analysis.reference, -timed[name]))
    return [Chosen(study, name, name) for name in order if name in sound]


def write_up(inputs: Inputs, lang: str = "en") -> str:
    """The write-up in Markdown; `lang` is en or zh."""
    writer = _Writer(inputs, lang)
    sections = [
        ("environment", writer.environment),
        ("baseline", writer.baseline),
        ("hot", writer.hot),
        ("findings", writer.findings),
        ("steps", writer.steps),
        ("accuracy", writer.accuracy),
        ("performance", writer.performance),
        *([("slips", writer.slips)] if writer.slipped else []),
        ("conclusion", writer.conclusion),
        ("commands", writer.commands),
    ]
    # An engine was built only where its profile or its evaluation says so.
    title = "title" if inputs.layers is not None or inputs.evaluations or not inputs.chosen else "title_plain"
    lines = [f"# {writer.say(title, sample=writer.sample)}", "", writer.gap("model"), ""]
    writer.numbers = {key: number for number, (key, _) in enumerate(sections, 1)}
    for number, (key, section) in enumerate(sections, 1):
        lines += [f"## {number} {writer.say(key)}", "", "\n".join(section()).rstrip("\n"), ""]
    return "\n".join(lines).rstrip() + "\n"


class _Writer:
    """The sections, each a list of lines; holds the inputs and the language, nothing else."""

    def __init__(self, inputs: Inputs, lang: str) -> None:
        self.inputs, self.lang = inputs, lang
        self.studies = list({one.study.path.resolve(): one.study for one in inputs.chosen}.values())
        self.sample = self.studies[0].manifest.sample.id if self.studies else "…"
        self.slipped = [(name, slip) for name, parts in inputs.evaluations for slip in check_evaluation(parts)]
        self.numbers: Mapping[str, int] = {}

    def say(self, key: str, **values: str) -> str:
        return say(key, self.lang, **values)

    def gap(self, key: str, name: str = "") -> str:
        """The author's words for a gap, else a marked place."""
        written = self.inputs.notes.get(name or key, "").strip()
        return written or self.say("gap", what=self.say(key))

    def named(self, key: str, text: str) -> str:
        """ "key: text"."""
        return f"{self.say(key)}{self.say('colon')}{text}"

    def head(self, *keys: str) -> list[str]:
        return [self.say(key) for key in keys]

    def environment(self) -> Iterator[str]:
        if not self.studies:
            yield self.gap("device")
            return
        for study in self.studies[:1]:
            manifest = study.manifest
            device = manifest.device
            rows = [[self.say("device"), str(device.get("name", "?"))]]
            rows += [[self.say("driver"), str(device["driver"])]] if "driver" in device else []
            rows += [[name, version] for name, version in manifest.versions.items() if name != "os"]
            rows += [["Nsight Compute", manifest.counters.version]] if manifest.counters.version else []
            rows.append([self.say("created"), manifest.created])
            yield pipe_table(Table(self.head("item", "value"), rows))

    def baseline(self) -> Iterator[str]:
        ladder = self.inputs.ladder
        evaluation = self.inputs.evaluations[:1]
        if ladder is not None:
            first = ladder.rungs[0]
            yield f"- {headline(self.inputs.chosen[0].study, first.impl, self.lang)}"
            if self.studies[0].manifest.inputs:
                yield f"- {self.named('p_inputs', ', '.join(self.studies[0].manifest.inputs))}"
        elif self.inputs.chosen:
            one = self.inputs.chosen[0]
            row = one.study.analysis.impl(one.study.analysis.reference)
            yield f"- {row['impl']}{self.say('colon')}{units.text(float(row['time']), 's')}"
        elif evaluation:
            yield f"- {evaluation[0][0]}"
        else:
            yield self.gap("no_baseline")

    def hot(self) -> Iterator[str]:
        layers = self.inputs.layers
        if layers is not None and layers["time"].sum() > 0:
            yield self._hot_table(tables.longest_layers(layers))
            yield "\n" + self.say("layers_note")
            for doubt in layers.attrs.get("doubts", ()):
                yield f"- {sections.doubt_line(doubt, self.lang)}"
            return
        ends = [(one.impl, self._kernels(one)) for one in self._ends()]
        if not any(rows for _, rows in ends):
            yield self.gap("no_hot")
            return
        for label, rows in ends:
            yield f"**{label}**\n\n{self._hot_table(rows)}\n"

    def _hot_table(self, rows: list[list[str]]) -> str:
        return pipe_table(Table(self.head("layer", "occurrences", "total", "share", "bound_by")[: len(rows[0])], rows))

    def _ends(self) -> list[Chosen]:
        """The first and the last step."""
        chosen = list(self.inputs.chosen)
        return chosen if len(chosen) < 2 else [chosen[0], chosen[-1]]

    def _kernels(self, one: Chosen) -> list[list[str]]:
        """The longest; those of a library that compute the same are one row."""
        kernels = one.study.kernels
        mine = (kernels[kernels["impl"] == one.impl] if len(kernels) else kernels).to_dict("records")
        groups: dict[str, list[Mapping[Any, Any]]] = {}
        for row in mine:
            short = short_name(str(row["kernel"]))
            groups.setdefault(short if short.endswith(")") else str(row["kernel"]), []).append(row)
        longest = sorted(groups.values(), key=lambda rows: -sum(float(row["time"]) for row in rows))[: tables.TOP]
        names = short_names(str(rows[0]["kernel"]) for rows in longest)
        return [
            [
                code(names[str(rows[0]["kernel"])]),
                units.count(sum(float(row["launches"]) for row in rows)),
                units.text(sum(float(row["time"]) for row in rows), "s"),
                units.percent(sum(float(row["share"]) for row in rows)),
                self.say("listed").join(dict.fromkeys(named(str(row["bound_by"]), self.lang) for row in rows)),
            ]
            for rows in longest
        ]

    def findings(self) -> Iterator[str]:
        """The first three of each step. What the callers of a library can do stands once, below."""
        told, libraries = False, dict[str, str]()
        known = {
            study.path.resolve(): [one for one in study.findings() if one.severity == TIME] for study in self.studies
        }
        for step in self.inputs.chosen:
            for one in [f for f in known[step.study.path.resolve()] if f.impl == step.impl][:3]:
                told = True
                title, then, expect = worded(one, self.lang)
                where = code(short_name(one.kernel))
                said = self.say("bound_why", bound=title, why=where) if one.kernel else title
                yield f"- **{step.impl}**{self.say('colon')}{said}"
                because = self.say("semicolon").join(proof(p, self.lang) for p in one.evidence)
                yield f"  - {gain(one, self.lang)}{self.say('semicolon')}{self.named('because', because)}"
                library = one.params.get("library", "")
                expected = self.named("expect", expect)
                if library:
                    libraries[library] = f"{runnable(then, step.study)}{self.say('semicolon')}{expected}"
                    continue
                yield f"  - {self.named('next', runnable(then, step.study))}"
                yield f"  - {expected}"
        if libraries:
            yield f"\n{self.say('library')}\n"
            yield from (f"- **{name}**{self.say('colon')}{then}" for name, then in libraries.items())
        if not told:
            yield self.gap("no_hot")

    def steps(self) -> Iterator[str]:
        ladder = self.inputs.ladder
        if ladder is None:
            yield self.gap("no_steps")
            return
        unit, times = units.column([rung.time for rung in ladder.rungs], "s")
        head = [
            self.say("step"),
            self.say("measure"),
            f"{self.say('before')} [{unit}]",
            f"{self.say('after')} [{unit}]",
            self.say("gain", formula=said_in(self.lang, FORMULAS["ratio"])),
            self.say("since"),
            self.say("attainable"),
        ]
        rows = [
            [
                rung.label,
                self.say("comma").join(rung.changed) or "-",
                times[i - 1] if i else "-",
                times[i],
                shown(rung.step, "ratio"),
                shown(rung.total, "ratio"),
                units.percent(rung.attainable_fraction),
            ]
            for i, rung in enumerate(ladder.rungs)
        ]
        yield pipe_table(Table(head, rows), (0, 1))
        if len(self.studies) == 1:
            yield "\n" + self.say("ratios_note", number=str(self.numbers.get("performance", "")))
        if self.inputs.figure:
            yield f"\n![{self.say('figure')}]({self.inputs.figure})"
            yield from [f"\n{self.say('fig_foreign')}"] if self.inputs.foreign else []
        for before, rung in pairwise(ladder.rungs):
            yield f"\n**{rung.label}**{self.say('colon')}{self.gap('why_step', f'steps.{rung.impl}')}"
            if rung.moved:
                listed = self.say("semicolon").join(moved(one, self.lang) for one in rung.moved)
                yield "\n" + self.named("moved", listed)
            if before.kernel != rung.kernel and before.kernel and rung.kernel:
                names = {"before": code(short_name(before.kernel)), "after": code(short_name(rung.kernel))}
                yield "\n" + self.say("other_kernel", **names)
        for doubt in ladder.doubts:
            yield f"\n- {sections.doubt_line(doubt, self.lang)}"

    def accuracy(self) -> Iterator[str]:
        rows = tables.errors(self.inputs.evaluations, self.lang)
        if rows:
            head = [self.say("part"), "bs", "sl", "a0", "r0", "a1", "r1", self.say("verdict")]
            yield pipe_table(Table(head, rows))
            yield "\n" + self.say("semicolon").join(
                (f"a{self.say('colon')}{self.say('max_abs')}", f"r{self.say('colon')}{self.say('median_rel')}")
            )
            parts = {part.name for _, many in self.inputs.evaluations for part in many}
            for part in sorted(parts & set(THRESHOLDS)):
                limits = ", ".join(f"{key} < {value:g}" for key, value in THRESHOLDS[part].items())
                yield f"{part}{self.say('colon')}{self.say('thresholds', limits=limits)}"
            yield "\n" + self.gap("mean")
            return
        place = self._place
        checked = [
            one
            for study in self.studies
            for one in sorted(study.manifest.candidates, key=lambda c: place(c.name))
            if one.checks
        ]
        if not checked:
            yield self.gap("no_eval")
            return
        head = self.head("implementation", "input_sets", *FIGURES, "correct")
        columns = list(zip(head, *(self._checks(impl) for impl in checked), strict=True))
        known = [one for one in columns if set(one[1:]) != {units.MISSING}]
        head, *rows = (list(cells) for cells in zip(*known, strict=True))
        yield pipe_table(Table(head, rows))
        said = sorted({check.said for impl in checked for check in impl.checks if check.said})
        limits = self.say("semicolon").join(said_in(self.lang, one) for one in said)
        yield "\n" + self.say("thresholds", limits=limits)
        yield "\n" + self.say("rel_note")
        figures = [getattr(check, name) for impl in checked for check in impl.checks for name in FIGURES]
        if None in figures:
            yield "\n" + self.gap("mean")

    def _checks(self, impl: Impl) -> list[str]:
        cells = [_largest(getattr(check, name) for check in impl.checks) for name in FIGURES]
        return [impl.name, str(len(impl.checks)), *cells, sections.correctness(impl, self.lang)]

    def _place(self, impl: str) -> int:
        """Where an implementation stands among the steps; those that are no step come last."""
        steps = [one.impl for one in self.inputs.chosen]
        return steps.index(impl) if impl in steps else len(steps)

    def performance(self) -> Iterator[str]:
        given = self.inputs.evaluations
        if given:
            yield from (tables.matrix(given, self.lang) if len(given) > 1 else tables.alone(given, self.lang))
        for study in self.studies:
            data = sections.parts_table(study, self.lang)
            rows = sorted(data.rows, key=lambda row: self._place(row[0]))
            yield pipe_table(Table(data.head, rows)) + "\n"
            yield f"{sections.timing_line(study, self.lang)}\n"
        if self.inputs.others:
            steps = list(dict.fromkeys(one.impl for one in self.inputs.chosen))
            runs = sorted([*self.studies, *self.inputs.others], key=tables.elements)
            yield tables.by_input(runs, steps, self.lang)
        elif not given:
            yield self.gap("no_eval")

    def slips(self) -> Iterator[str]:
        """Figures of the evaluations that do not follow from their inputs; there is no such section without one."""
        rows = [
            [f"{name}{self.say('colon')}{slip.where}", slip.printed, slip.recomputed, said_in(self.lang, slip.why)]
            for name, slip in self.slipped
        ]
        yield pipe_table(Table(self.head("where", "printed", "recomputed", "reason"), rows))

    def conclusion(self) -> Iterator[str]:
        ladder = self.inputs.ladder
        if ladder is not None:
            first, last = ladder.rungs[0], ladder.rungs[-1]
            times = f"{units.text(first.time, 's')} -> {units.text(last.time, 's')}"
            whole = self.say("comma").join((times, f"{self.say('speedup')} {shown(last.total, 'ratio')}"))
            yield f"- {first.label} -> {last.label}{self.say('colon')}{whole}"
        yield self.gap("lessons")

    def commands(self) -> Iterator[str]:
        yield self.gap("docker")
        lines = [*map(sections.again, self.studies), *self.inputs.commands]
        if lines:
            yield "\n```sh\n" + "\n".join(dict.fromkeys(lines)) + "\n```"


def _largest(values: Iterable[float | None]) -> str:
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    return f"{max(known):.3g}" if known else "-"


DIALECT = Dialect(
    "tensorrt",
    write,
    (
        click.Option(
            ["--trtexec"], type=FILE, multiple=True, help="tensorrt: an export of trtexec, nsys or ncu; repeatable."
        ),
        click.Option(
            ["--eval", "evaluations"],
            type=FILE,
            multiple=True,
            help="tensorrt: output of testEncoderAndDecoder.py, the baseline first; repeatable.",
        ),
        click.Option(
            ["--other", "others"],
            multiple=True,
            metavar="RUN",
            help="tensorrt: a run of the same steps on other inputs; repeatable.",
        ),
        click.Option(["--notes"], type=FILE, help="tensorrt: the author's words (TOML) for the gaps."),
    ),
    needs_runs=False,
    markdown=True,
)
