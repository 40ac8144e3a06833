"""What a run directory means: read once, each thing computed once, and never written.

A Study knows no renderer and starts nothing. Its parts are the implementations of a sample, or the ranges of a
program or of somebody's exports: the first have been checked and compared, the second only measured.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analyzers.counts import at_least
from analyzers.errors import AnalyzeError
from analyzers.floor import Work, combine, pipe_times
from analyzers.kernels.precision import Reduced, audit
from analyzers.kernels.provenance import Provenance, provenance
from analyzers.kernels.source_lines import Line, lines_of
from analyzers.perturbation import Inferred, evidence, infer
from analyzers.rules.findings import explain
from analyzers.rules.rule import Finding
from analyzers.timeline.budget import Budget, budget
from analyzers.timeline.call import in_kernels
from analyzers.timeline.compare import Steps, each_step
from analyzers.timeline.of_step import in_step, of_ranges, of_step, of_whole
from analyzers.timeline.summary import Timeline, device_labels, timeline
from analyzers.verdicts import shapes as by_shape
from analyzers.verdicts.analysis import Analysis, Recording, analyze
from analyzers.verdicts.statistics import Ratio
from analyzers.verdicts.verdict import Verdict
from analyzers.waterfall import Waterfall, waterfalls
from collectors.counters import counter_set
from collectors.doubt import RANGES_OVERLAP, Doubt, unique
from collectors.frame import host_of
from collectors.ncu import source
from collectors.recipes import capability
from profkit.annotation import Declared, read_declared
from profkit.rundir import harmless
from profkit.rundir.directory import Run, open_run
from profkit.rundir.manifest import Impl, Manifest
from profkit.study.ceilings import roofline_of
from profkit.study.declared import declared_works, outside_ranges
from profkit.study.launches import Captured, read_captures
from profkit.study.timings import read_csv
from profkit.study.verdicts import fragility, verdicts_of
from roofline.ceilings import Roofline


@dataclass(frozen=True)
class Part:
    """What a run is made of: an implementation that was tried, or a range (`impl` None: nothing was checked).

    `row`: its metrics in SI units, None where it was not measured.
    """

    name: str
    impl: Impl | None
    row: Mapping[str, Any] | None


@dataclass(frozen=True)
class Study:
    """One run and everything the analyzers make of it.

    Reading is lazy, each property is computed once; damaged files raise ProfkitError when they are first needed.
    frames: launches frames of captures, by file, that were read already.
    """

    run: Run
    frames: Mapping[str, pd.DataFrame] = field(default_factory=dict, compare=False, repr=False)

    @property
    def path(self) -> Path:
        return self.run.path

    @property
    def logs(self) -> Path:
        return self.run.logs

    @cached_property
    def manifest(self) -> Manifest:
        """What run.json says, as it may be shown: no text in it commands a terminal or deceives a reader."""
        return harmless.struct(self.run.manifest)

    @cached_property
    def captured(self) -> Captured:
        """The launches of all files of the run, brought together."""
        return read_captures(self.run, self.frames)

    @property
    def launches(self) -> pd.DataFrame | None:
        """The launches of one call of each part, by the best tool there was; None when no tool saw any."""
        return self.captured.launches

    @cached_property
    def timings(self) -> pd.DataFrame | None:
        """The samples of timings.csv, None when nothing was timed."""
        return read_csv(self.run.timings_csv)

    @cached_property
    def roofline(self) -> Roofline:
        """The ceilings of the run's own device."""
        return roofline_of(self.run, self.launches)

    @cached_property
    def declared(self) -> Mapping[str, Declared]:
        """What the program declared, by range, while the tool watched whose launches are shown."""
        launches = self.launches
        tool = str(launches["tool"].iloc[0]) if launches is not None and len(launches) else ""
        return read_declared(self.run.annotations(tool))

    @cached_property
    def analysis(self) -> Analysis:
        """Everything the analyzers make of this run; the column `verdict` has the one word of each candidate,
        `energy` [J] what was measured while recording.
        """
        words = {name: one.word for name, one in self.verdicts.items()}
        impls = self._unjudged.impls
        said = impls["impl"].map(words)
        verdict = said.where(said.notna(), impls["verdict"])
        energy = impls["impl"].map(self.manifest.timing.energy).astype("float64")
        return replace(self._unjudged, impls=impls.assign(verdict=verdict, energy=energy))

    @cached_property
    def shapes(self) -> list[by_shape.Shape]:
        """The shapes that were timed, that of get_inputs() first; none where it was the only one."""
        manifest, first = self.manifest, self.timings
        if not manifest.shapes or first is None:
            return []
        found = [by_shape.shape(manifest.inputs, first, "reference")]
        for one in manifest.shapes:
            frame = read_csv(self.path / one.file)
            if frame is not None:
                found.append(by_shape.shape(one.inputs, frame, "reference"))
        return found

    @cached_property
    def passes(self) -> list[tuple[str, by_shape.Shape]]:
        """The passes that were timed with their figures, "forward" first; none where no gradients were."""
        first, found = self.timings, []
        if first is None:
            return []
        for one in self.manifest.passes:
            frame = read_csv(self.path / one.file)
            if frame is not None:
                found.append((one.name, by_shape.shape(one.wanted, frame, "reference")))
        return [("forward", by_shape.shape(self.manifest.inputs, first, "reference")), *found] if found else []

    @property
    def over_shapes(self) -> Mapping[str, Ratio]:
        """The geometric mean of the speed-ups over all shapes, by candidate; none where one shape alone was timed."""
        return by_shape.geometric(self.shapes)

    @property
    def shape_figures(self) -> dict[str, Any]:
        """The shapes as plain data for JSON."""
        return by_shape.to_dict(self.shapes)

    @cached_property
    def verdicts(self) -> Mapping[str, Verdict]:
        """The one verdict on each candidate, by name; none of a program, where nothing is compared."""
        return verdicts_of(self.manifest, self._unjudged, self.reduced_precision, self._whose)

    @cached_property
    def _unjudged(self) -> Analysis:
        manifest, launches = self.manifest, self.launches
        works, doubts = self._works()
        counters = manifest.counters
        missing = counters.why or (counters.state if manifest.impls else "only times were recorded")
        found = analyze(
            self.timings,
            launches,
            works,
            self.roofline,
            reference="reference" if manifest.impls else "",
            counters_missing="" if counters.state == "collected" else missing,
            recording=Recording(
                l2_bytes=float(manifest.device.get("l2_bytes") or math.nan),
                target=max(manifest.timing.target, 0.01),
                spread=manifest.timing.spread,
                calls=in_kernels(self.captured.calls, launches) if self.captured.calls is not None else {},
            ),
        )
        if launches is not None and not manifest.impls:
            doubts += outside_ranges(launches)
        more = [*doubts, *self._timeline_doubts(), *self._own_doubts()]
        more += [doubt for name, one in self._whose.items() if (doubt := one.doubt(name)) is not None]
        more += [one for impl in manifest.candidates if (one := fragility(impl)) is not None]
        return replace(found, doubts=unique([*found.doubts, *more, *(one.doubt() for one in self.reduced_precision)]))

    def _works(self) -> tuple[Mapping[str, Sequence[Work]] | Sequence[Work], list[Doubt]]:
        """What the task must do, or each range by itself."""
        if self.manifest.impls:
            return tuple(Work.from_dict(row) for row in self.manifest.work), []
        if self.launches is None or self.launches.empty:
            return {}, []
        works, doubts = declared_works(self.declared, self.launches, filtered=self.filtered)
        return {path: (work,) for path, work in works.items()}, doubts

    def _timeline_doubts(self) -> Sequence[Doubt]:
        frame = self.captured.timeline
        if frame is None or frame is self.launches or self.manifest.impls:
            return ()
        return tuple(frame.attrs.get("doubts", ()))

    def _own_doubts(self) -> Iterator[Doubt]:
        """Doubts noted while measuring, and what is unknown about the device."""
        yield from self.manifest.doubts
        if gone := self.run.gone:
            yield Doubt(
                f"files of this run are gone: {', '.join(gone)}",
                "what they held is missing here",
                "put them back, or measure again",
            )
        yield from (doubt for one in self.budgets.values() if (doubt := one.doubt()) is not None)
        roof = self.roofline
        if not roof.ceilings:
            yield Doubt(
                f"no ceiling is known for {roof.device}",
                "no roofline, no floor, no share of peak but ncu's own of DRAM",
                "name the GPU: `profkit import FILE --device NAME`"
                if self.manifest.sample.kind == "import" and roof.device.startswith("unknown device")
                else "add it to roofline/devices.toml, with its source",
            )
        elif all(ceiling.source == "datasheet" for ceiling in roof.ceilings):
            yield Doubt(
                "all ceilings are datasheet figures, which no kernel reaches",
                "shares of peak read low by 5 to 20 %",
                "`profkit ceilings` measures this device's own once; --ncu gives the peaks at the real clock",
                "datasheet-roofs",
            )

    @cached_property
    def _whose(self) -> Mapping[str, Provenance]:
        """Of each right candidate that defines kernels: whether they did the work."""
        launches = self.launches
        if launches is None or launches.empty:
            return {}
        own = [impl for impl in self.manifest.candidates if impl.ok and impl.kernels]
        return {impl.name: provenance(launches[launches["impl"] == impl.name], impl.kernels) for impl in own}

    @cached_property
    def reduced_precision(self) -> list[Reduced]:
        """The candidates that computed in less than the task and the reference keep; none where types are unknown."""
        launches, reference = self.launches, self.manifest.reference
        if launches is None or launches.empty or reference is None:
            return []
        cc = str(self.manifest.device.get("cc", ""))
        has_tf32 = bool(cc) and capability(cc) >= 80
        dots = {impl.name: impl.tf32_dots if has_tf32 else () for impl in self.manifest.candidates if impl.ok}
        return audit(launches, self.manifest.task, reference.name, dots)

    @property
    def kernels(self) -> pd.DataFrame:
        """One row a kernel of each part, SI units; empty without a tool that saw launches."""
        return self.analysis.kernels

    @property
    def metrics(self) -> pd.DataFrame:
        """One row a part: time, speedup, achieved and attainable FLOP/s, ... in SI units."""
        return self.analysis.impls

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The implementations but those that were skipped, or the ranges; in the order of the run."""
        rows = {str(row["impl"]): {str(k): v for k, v in row.items()} for row in self.metrics.to_dict("records")}
        if self.manifest.impls:
            tried = [impl for impl in self.manifest.impls if impl.status != "skipped"]
            return tuple(Part(impl.name, impl, rows.get(impl.name)) for impl in tried)
        return tuple(Part(name, None, row) for name, row in rows.items())

    @cached_property
    def best(self) -> Part | None:
        """The fastest correct candidate, else the first implementation that was measured; None of ranges."""
        measured = [(one, one.row) for one in self.parts if one.impl is not None and one.row is not None]
        sound = [(one, row) for one, row in measured if one.impl in self.manifest.candidates and row["time"] > 0]
        if any(one.impl is not None and one.impl.ok for one, _ in sound):
            return min((float(row["time"]), one.name, one) for one, row in sound if one.impl and one.impl.ok)[2]
        return min((one for one, _ in measured), key=lambda one: one.name == self.analysis.reference, default=None)

    @cached_property
    def ranked(self) -> tuple[Part, ...]:
        """The parts as every list of them has them: `best` first, then whoever is right, the reference among them, the fastest
        first, then whoever is wrong or has no time; ranges in the order of the run.
        """
        if not self.manifest.impls:
            return self.parts
        best = self.best

        def place(one: Part) -> tuple[int, float]:
            time = float(one.row["time"]) if one.row is not None else math.nan
            right = one.impl is not None and one.impl.ok and time > 0
            return (0, 0.0) if one is best else (1, time) if right else (2, 0.0)

        return tuple(sorted(self.parts, key=place))

    @cached_property
    def deep(self) -> bool:
        """Whether the counters that --deep adds were collected."""
        own = set(counter_set("deep")) - set(counter_set("default"))
        known = self.launches
        return known is not None and any(known[name].notna().any() for name in own & set(known.columns))

    @cached_property
    def hottest(self) -> pd.DataFrame:
        """A kernel a row, placed under the roofs: of each implementation, as they are ranked; of ranges, which may hold one
        another, once over all, the longest first, `impl` the range or how many. `share` is of its whole. Where the wall
        time of a program is known, with what a step has of each (analyzers.timeline.budget.in_step); where only some launches
        were counted, the shares are of the whole program's GPU time and of its wall time.
        """
        every = self.analysis.hottest
        if self.manifest.impls or "time" not in every:
            return self._by_rank(self.kernels) if self.manifest.impls else every
        if self.stepwise:
            told = in_step(every, self.step, sum(one.step for one in self.budgets.values()))
            frame = self.captured.timeline
            return of_whole(told, frame, self.wall) if self.filtered and frame is not None else told
        if self.overlapping:
            every = at_least(every, self.analysis.kernels)
        shared: pd.DataFrame = every.assign(share=every["time"] / (every["time"].sum() or math.nan))
        return shared

    @property
    def overlapping(self) -> bool:
        """Whether the ranges of an export count what lies in several of them several times."""
        return any(doubt.code == RANGES_OVERLAP for doubt in self.analysis.doubts)

    def _by_rank(self, kernels: pd.DataFrame) -> pd.DataFrame:
        at = {part.name: place for place, part in enumerate(self.ranked)}
        order = kernels["impl"].map(at).fillna(len(at)).argsort(kind="stable")
        ordered: pd.DataFrame = kernels.iloc[order].reset_index(drop=True)
        return ordered

    @cached_property
    def step(self) -> pd.DataFrame:
        """What the GPU does in a step of a program (analyzers.timeline.budget.of_step); empty without a timeline."""
        return of_step(one for one in self.budgets.values() if one.window > 0)

    @cached_property
    def in_ranges(self) -> Mapping[str, tuple[float, float]]:
        """Range -> (seconds of kernels, kernels) of a step, what is inside it included; those that a step has."""
        return of_ranges(self.step)

    @property
    def stepwise(self) -> bool:
        """Whether times of kernels and ranges are told of a step."""
        return len(self.step) > 0

    @property
    def filtered(self) -> bool:
        """Whether only some of a program's launches were counted."""
        return any(one.filtered for one in self.run.captures if one.role == "counters")

    @property
    def host(self) -> pd.DataFrame | None:
        """What the host did beside the timeline (collectors.kineto.host_frame); None where nobody recorded it."""
        return None if self.captured.timeline is None else host_of(self.captured.timeline)

    @cached_property
    def wall(self) -> float:
        """Seconds of a program: its process's life where that is known, else from the first to the last of its GPU work;
        NaN without a timeline.
        """
        frame = self.captured.timeline
        if frame is None or "start" not in frame:
            return math.nan
        lived = _lived(self.host)
        return lived if lived == lived else float((frame["start"] + frame["time"]).max() - frame["start"].min())

    @cached_property
    def timelines(self) -> Mapping[str, Timeline]:
        """Busy, idle, overlap and shares over time: of the whole ("") or of one call of each implementation.

        Empty without a timeline.
        """
        frame = self.captured.timeline
        if frame is None:
            return {}
        names = [part.name for part in self.ranked] if self.manifest.impls else [""]
        found = {}
        for name in names:
            part = _one_call(frame, name) if name else frame
            with contextlib.suppress(AnalyzeError):
                found[name] = timeline(part.reset_index(drop=True))
        return found

    def _devices(self) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame | None]]:
        """Of each process and device of a program its name ("" where there is one), launches, and what its host did."""
        frame = self.captured.timeline
        if frame is None or self.manifest.impls or "start" not in frame or not (frame["time"] > 0).any():
            return
        host = self.host
        labels = device_labels(frame)
        alone = labels.nunique() == 1 and ("process" not in frame or frame["process"].nunique() == 1)
        owner = frame["process"].astype(str) if "process" in frame else ""
        keys = labels if alone else (owner + " " + labels.astype(str)).str.strip()
        several = keys.nunique() > 1
        # Of a million launches a copy is a tenth of a gigabyte.
        for key, part in frame.groupby(keys, sort=False) if several else [(keys.iloc[0], frame)]:
            calls = _calls_of(host, str(part["process"].iloc[0]) if "process" in part else "", several)
            yield str(key) if several else "", part, calls

    @cached_property
    def budgets(self) -> Mapping[str, Budget]:
        """Where the wall time of a program went, by process and device; none of a sample, or without a timeline."""
        window, found = self.manifest.window, {}
        for key, part, calls in self._devices():
            found[key] = budget(
                part,
                host=calls,
                after=window.after,
                at_most=window.steps,
                within=window.range,
                passages=max(window.taken or 1, 1),
            )
        return dict(sorted(found.items()))

    @cached_property
    def longest_step(self) -> tuple[str, Budget, Steps] | None:
        """Of a program's processes and devices the one whose step takes longest, which the others wait for; None where
        `step` is empty.
        """
        known = {name: one for name, one in self.budgets.items() if one.window > 0}
        if not known:
            return None
        name = max(known, key=lambda one: known[one].step)
        part = next(part for key, part, _ in self._devices() if key == name)
        return name, known[name], each_step(part, known[name])

    @cached_property
    def waterfalls(self) -> Mapping[str, Waterfall]:
        """Where the time of a call of each part goes, down to its floor."""
        return waterfalls(self.analysis)

    @cached_property
    def inferred(self) -> Mapping[str, Inferred]:
        """What binds each implementation by time alone, where it was timed under other conditions (--perturb)."""
        works = [Work.from_dict(row) for row in self.manifest.work]
        declared = next((one for one in works if one.source == "declared"), None)
        task, _ = combine(declared, next((one for one in works if one.source == "modelled"), None))
        times = {str(row["impl"]): float(row["time"]) for row in self.metrics.to_dict("records")}
        found = {}
        for one in self.manifest.perturbed:
            if (time := times.get(one.impl)) is not None:
                uses = self._uses(task, time) if task is not None else {}
                found[one.impl] = infer(one.impl, evidence(time, uses, one.seconds, one.left))
        return found

    def _uses(self, task: Work, time: float) -> dict[str, float]:
        """Share of each roof that the task's work would use in that time [s]; roofs that are not known are left out."""
        needed = pipe_times(task.flops, {name: self.roofline.peak(name) for name in task.flops})
        needed["dram"] = task.bytes / self.roofline.peak("dram")
        return {name: seconds / time for name, seconds in needed.items() if seconds > 0}

    @cached_property
    def lines(self) -> Sequence[Line]:
        """The source lines that the kernels wait for, by part and kernel; empty where none were recorded."""
        files = [self.path / one.file for one in self.run.captures if one.role == "lines"]
        return lines_of([one for file in files for one in source.read(file)], self.waterfalls)

    def findings(self, kernel: str = "") -> list[Finding]:
        """The ranked findings; `kernel`: only kernels whose name contains it."""
        return self._explained(kernel) if kernel else list(self._findings)

    @cached_property
    def _findings(self) -> list[Finding]:
        return self._explained("")

    def _explained(self, kernel: str) -> list[Finding]:
        return explain(
            self.analysis,
            self.roofline,
            kernel=kernel,
            sms=float(self.manifest.device.get("sms") or math.nan),
            budgets=self.budgets,
            calls=self.waterfalls,
            steps=self._step_times if self.filtered and self.stepwise else {},
        )

    @property
    def _step_times(self) -> dict[str, float]:
        """Kernel -> its seconds of a step, NaN where it runs in none."""
        return dict(self.hottest[["kernel", "step_time"]].itertuples(index=False, name=None))


def _calls_of(host: pd.DataFrame | None, process: str, several: bool) -> pd.DataFrame | None:
    """The host's calls of one process; None where they are several's and do not say whose, for then nobody knows who was
    late.
    """
    if host is None or not several:
        return host
    return host[host["process"] == process] if "process" in host else None


def _lived(host: pd.DataFrame | None) -> float:
    """How long the process lived [s]; NaN without its own row."""
    own = host[host["call"] == "process"] if host is not None else None
    return math.nan if own is None or own.empty else float(own["time"].iloc[0])


def _one_call(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """One call of an implementation on the timeline: named by CUPTI's table, or inside its range for nsys."""
    part: pd.DataFrame = frame[(frame["impl"] == name) | frame["range"].str.contains(f"/{name}/", regex=False)]
    part.attrs = frame.attrs
    return part


def open_study(run: str | os.PathLike[str] | Study) -> Study:
    """The study of a run directory, or of the newest run below a path; of one that is open itself.

    Raises ProfkitError when there is none.
    """
    return run if isinstance(run, Study) else Study(open_run(run))
