"""--for tensorrt: the hackathon's write-up from runs, trtexec exports and evaluation tables.

Numbers come from files alone. What no file says is left as a marked gap for the author.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzers.bottleneck import TIME
from analyzers.bottleneck_text import words
from analyzers.compare import Ladder
from analyzers.slips import Slip, check_evaluation
from analyzers.speedup import FORMULAS, shown, speedup
from collectors.encoder_table import THRESHOLDS, Part
from profkit.report import table, units
from profkit.report.explain import findings_of, in_order, proof
from profkit.report.ladder import Chosen, moved
from profkit.report.markdown import pipe_table, short_name
from profkit.report.messages import say

if TYPE_CHECKING:
    import pandas as pd

TOP = 10


@dataclass(frozen=True)
class Inputs:
    """What a write-up is made of; any part may be missing. evaluations: (name, parts) in order, baseline first."""

    chosen: Sequence[Chosen] = ()
    ladder: Ladder | None = None
    layers: pd.DataFrame | None = None
    evaluations: Sequence[tuple[str, Sequence[Part]]] = ()
    commands: Sequence[str] = ()
    figure: str = ""


def write(inputs: Inputs, lang: str = "en") -> str:
    """The write-up in Markdown; `lang` is en or zh."""
    writer = _Writer(inputs, lang)
    sections = [
        ("environment", writer.environment), ("baseline", writer.baseline), ("hot", writer.hot),
        ("findings", writer.findings), ("steps", writer.steps), ("accuracy", writer.accuracy),
        ("performance", writer.performance), ("slips", writer.slips), ("conclusion", writer.conclusion),
        ("commands", writer.commands),
    ]  # fmt: skip
    lines = [f"# {writer.say('title', sample=writer.sample)}", "", writer.gap("model"), ""]
    for number, (key, section) in enumerate(sections, 1):
        lines += [f"## {number} {writer.say(key)}", "", *section(), ""]
    return "\n".join(lines).rstrip() + "\n"


class _Writer:
    """The sections, each a list of lines; holds the inputs and the language, nothing else."""

    def __init__(self, inputs: Inputs, lang: str) -> None:
        self.inputs, self.lang = inputs, lang
        self.runs = list({id(one.run): one.run for one in inputs.chosen}.values())
        self.sample = self.runs[0].manifest.sample.id if self.runs else "…"

    def say(self, key: str, **values: str) -> str:
        return say(key, self.lang, **values)

    def gap(self, key: str) -> str:
        """A marked place for the author."""
        return self.say("gap", what=self.say(key))

    def head(self, *keys: str) -> list[str]:
        return [self.say(key) for key in keys]

    def environment(self) -> Iterator[str]:
        if not self.runs:
            yield self.gap("device")
            return
        for run in self.runs[:1]:
            manifest = run.manifest
            device = manifest.device
            rows = [
                [self.say("device"), str(device.get("name", "?"))],
                [self.say("driver"), str(device.get("driver", "?"))],
            ]
            rows += [[name, version] for name, version in manifest.versions.items()]
            rows += [["Nsight Compute", manifest.counters.version]] if manifest.counters.version else []
            rows.append([self.say("created"), manifest.created])
            yield pipe_table(self.head("item", "value"), rows)

    def baseline(self) -> Iterator[str]:
        ladder = self.inputs.ladder
        evaluation = self.inputs.evaluations[:1]
        if ladder is not None:
            first = ladder.rungs[0]
            yield f"- {first.label}: {units.text(first.time, 's')}"
        elif self.inputs.chosen:
            one = self.inputs.chosen[0]
            row = one.run.analysis.impl(one.run.analysis.reference)
            yield f"- {row['impl']}: {units.text(float(row['time']), 's')}"
        elif evaluation:
            yield f"- {evaluation[0][0]}"
        else:
            yield self.gap("no_baseline")

    def hot(self) -> Iterator[str]:
        rows = self._layers() if self.inputs.layers is not None else self._kernels()
        if not rows:
            yield self.gap("no_hot")
            return
        yield pipe_table(self.head("layer", "count", "total", "share"), rows)
        if self.inputs.layers is not None:
            yield "\n" + self.say("layers_note")
            for doubt in self.inputs.layers.attrs.get("doubts", ()):
                yield f"- {doubt['what']}" + (f": {doubt['how_much']}" if doubt.get("how_much") else "")

    def _layers(self) -> list[list[str]]:
        frame = self.inputs.layers
        if frame is None or not frame["time"].sum() > 0:
            return []
        return _grouped(frame)

    def _kernels(self) -> list[list[str]]:
        if not self.inputs.chosen:
            return []
        one = self.inputs.chosen[0]
        kernels = one.run.kernels
        mine = kernels[kernels["impl"] == one.impl] if len(kernels) else kernels
        return [
            [f"`{short_name(str(row['kernel']))}`", units.digits(float(row["launches"])),
             units.text(float(row["time"]), "s"), units.percent(float(row["share"]))]
            for row in mine.head(TOP).to_dict("records")
        ]  # fmt: skip

    def findings(self) -> Iterator[str]:
        told = False
        for run in self.runs:
            found = [one for one in findings_of(run) if one.severity == TIME]
            for impl in in_order(run):
                for one in [f for f in found if f.impl == impl][:3]:
                    told = True
                    title, then, expect = words(one.rule, one.variant, one.params, self.lang)
                    yield f"- **{impl}**: {title}" + (
                        f" (`{short_name(one.kernel, 50)}`)" if one.kernel else ""
                    )
                    bound = self.say(
                        "bound", ratio=units.percent(one.ratio), time=units.text(one.upper_bound, "s")
                    )
                    yield f"  - {bound}; {self.say('because')}: {'; '.join(proof(p) for p in one.evidence)}"
                    yield f"  - {self.say('next')}: {then}; {self.say('expect')}: {expect}"
        if not told:
            yield self.gap("no_hot")

    def steps(self) -> Iterator[str]:
        ladder = self.inputs.ladder
        if ladder is None:
            yield self.gap("no_steps")
            return
        unit, times = units.column([rung.time for rung in ladder.rungs], "s")
        head = [self.say("step"), self.say("measure"), f"{self.say('before')} [{unit}]", f"{self.say('after')} [{unit}]",
                self.say("gain", formula=FORMULAS["ratio"]), self.say("since"), self.say("attainable")]  # fmt: skip
        rows = [
            [rung.label, ", ".join(rung.changed) or "-", times[i - 1] if i else "-", times[i],
             shown(rung.step, "ratio"), shown(rung.total, "ratio"), units.percent(rung.attainable_fraction)]
            for i, rung in enumerate(ladder.rungs)
        ]  # fmt: skip
        yield pipe_table(head, rows)
        if self.inputs.figure:
            yield f"\n![{self.say('figure')}]({self.inputs.figure})"
        for rung in ladder.rungs[1:]:
            yield f"\n**{rung.label}**: {self.gap('why_step')}"
            if rung.moved:
                yield f"\n{self.say('moved')}: {'; '.join(moved(one) for one in rung.moved)}"
        for doubt in ladder.doubts:
            yield f"\n- {doubt.what}: {doubt.how_much}"

    def accuracy(self) -> Iterator[str]:
        rows = [
            row for name, parts in self.inputs.evaluations for part in parts for row in _errors(name, part)
        ]
        if rows:
            yield pipe_table(
                [self.say("part"), "bs", "sl", "a0", "r0", "a1", "r1", self.say("verdict")], rows
            )
            yield f"\na: {self.say('max_abs')}; r: {self.say('median_rel')}"
            parts = {part.name for _, many in self.inputs.evaluations for part in many}
            for part in sorted(parts & set(THRESHOLDS)):
                limits = ", ".join(f"{key} < {value:g}" for key, value in THRESHOLDS[part].items())
                yield f"{part}: {self.say('thresholds', limits=limits)}"
            yield "\n" + self.gap("mean")
            return
        checks = [
            [impl.name, str(len(impl.checks)), _largest(c.max_abs for c in impl.checks), _largest(c.max_rel for c in impl.checks),
             table.correctness(impl)]
            for run in self.runs for impl in run.manifest.candidates if impl.checks
        ]  # fmt: skip
        if checks:
            yield pipe_table(self.head("implementation", "count", "max_abs", "max_rel", "correct"), checks)
            yield "\n" + self.gap("mean")
        yield self.gap("no_eval")

    def performance(self) -> Iterator[str]:
        evaluations = self.inputs.evaluations
        if len(evaluations) > 1:
            yield from self._matrix()
        elif evaluations:
            for name, parts in evaluations:
                for part in parts:
                    rows = [
                        [row.cells.get(key, "-") for key in ("bs", "sl", "lt", "tp")]
                        for row in _ordered(part)
                    ]
                    yield (
                        f"{name} {part.name}\n\n"
                        + pipe_table(["bs", "sl", self.say("latency"), self.say("tp")], rows)
                        + "\n"
                    )
        for run in self.runs:
            data = table.verdict_table(run)
            yield pipe_table(data.head, data.rows) + "\n"
        if not evaluations:
            yield self.gap("no_eval")

    def _matrix(self) -> Iterator[str]:
        """Latency and speed-up by batch and length; the first table is the baseline."""
        (base_name, base_parts), *others = self.inputs.evaluations
        yield self.say("convention", formula=FORMULAS["ratio"], base=self.say("base_latency")) + "\n"
        for part in base_parts:
            after = [
                (name, {_key(row): row for row in one.rows})
                for name, parts in others
                for one in parts
                if one.name == part.name
            ]
            rows = []
            for row in _ordered(part):
                cells = [row.cells.get("bs", "-"), row.cells.get("sl", "-"), row.cells.get("lt", "-")]
                for _, known in after:
                    other = known.get(_key(row))
                    cells += (
                        [
                            other.cells.get("lt", "-"),
                            shown(speedup(row.number("lt"), other.number("lt")), "ratio"),
                        ]
                        if other
                        else ["-", "-"]
                    )
                rows.append(cells)
            head = ["bs", "sl", f"{base_name} lt [ms]"]
            for name, _ in after:
                head += [f"{name} lt [ms]", self.say("gain", formula=FORMULAS["ratio"])]
            yield f"{part.name}\n\n" + pipe_table(head, rows) + "\n"

    def slips(self) -> Iterator[str]:
        found = [(name, slip) for name, parts in self.inputs.evaluations for slip in check_evaluation(parts)]
        if not found:
            yield self.say("all_follow") if self.inputs.evaluations else self.gap("no_eval")
            return
        rows = [[f"{name}: {slip.where}", slip.printed, slip.recomputed, slip.why] for name, slip in found]
        yield pipe_table(self.head("where", "printed", "recomputed", "reason"), rows)

    def conclusion(self) -> Iterator[str]:
        ladder = self.inputs.ladder
        if ladder is not None:
            first, last = ladder.rungs[0], ladder.rungs[-1]
            yield f"- {first.label} -> {last.label}: {units.text(first.time, 's')} -> {units.text(last.time, 's')}, {shown(last.total, 'ratio')}"
        yield self.gap("lessons")

    def commands(self) -> Iterator[str]:
        yield self.gap("docker")
        lines = [
            f"profkit profile {shlex.quote(run.manifest.sample.path)}"
            + (" --ncu" if run.manifest.counters.state == "collected" else "")
            for run in self.runs
        ]
        lines += list(self.inputs.commands)
        if lines:
            yield "\n```sh\n" + "\n".join(dict.fromkeys(lines)) + "\n```"


def _grouped(frame: pd.DataFrame) -> list[list[str]]:
    total = float(frame["time"].sum())
    groups = (
        frame.groupby("kernel", sort=False)["time"].agg(["size", "sum"]).sort_values("sum", ascending=False)
    )
    return [
        [f"`{short_name(str(name))}`", str(int(row["size"])), units.text(float(row["sum"]), "s"), units.percent(float(row["sum"]) / total)]
        for name, row in groups.head(TOP).iterrows()
    ]  # fmt: skip


def _errors(name: str, part: Part) -> Iterator[list[str]]:
    from collectors.encoder_table import judge

    for row in _ordered(part):
        cells = [row.cells.get(key, "-") for key in ("bs", "sl", "a0", "r0", "a1", "r1")]
        if any(cell != "-" for cell in cells[2:]):
            wanted = judge(part, row)
            verdict = row.verdict or "-"
            yield [
                f"{name} {part.name}".strip(),
                *cells,
                verdict if wanted in ("", row.verdict) else f"{verdict} (thresholds: {wanted})",
            ]


def _ordered(part: Part) -> list[Any]:
    """Rows by batch and length: the script sorts its files as text."""
    return sorted(
        part.rows,
        key=lambda row: (row.number("bs"), row.number("sl") if row.number("sl") == row.number("sl") else 0),
    )


def _key(row: Any) -> tuple[str, str]:
    return row.cells.get("bs", ""), row.cells.get("sl", "")


def _largest(values: Any) -> str:
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    return f"{max(known):.3g}" if known else "-"


def read_layers(paths: Sequence[Path]) -> pd.DataFrame | None:
    """The layers or kernels of the given exports: trtexec's files are joined, an nsys or ncu export is read alone.

    Raises ProfkitError when none of them has times.
    """
    if not paths:
        return None
    from collectors import read, trtexec
    from profkit.error import ProfkitError

    kinds: dict[str, Path] = {}
    for path in paths:
        kinds[_kind(path)] = path
    if "other" in kinds:
        frame: pd.DataFrame = read(kinds["other"])
        return frame
    if "profile" not in kinds:
        raise ProfkitError(
            f"{paths[0]}: no layer times", fix="export with trtexec --exportProfile=profile.json"
        )
    return trtexec.read(
        kinds["profile"], kinds.get("layers"), times=kinds.get("times"), metadata=kinds.get("metadata")
    )


_MARKS: Mapping[str, str] = {
    "averageMs": "profile", "timeMs": "profile", '"Layers"': "layers", "latencyMs": "times",
    "device_information": "metadata", "performance_summary": "metadata",
}  # fmt: skip


def _kind(path: Path) -> str:
    from collectors import head_of

    head = head_of(path)
    if head.lstrip()[:1] not in ("[", "{"):
        return "other"
    return next((kind for mark, kind in _MARKS.items() if mark in head), "other")


__all__ = ["Inputs", "Slip", "read_layers", "write"]
