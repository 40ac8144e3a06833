"""Analysis of a run directory: read once, computed once, never written."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analyzers.counts import at_least
from analyzers.kernels.precision import Reduced, audit
from analyzers.kernels.provenance import Provenance, provenance
from analyzers.kernels.source_lines import Line, lines_of
from analyzers.lower_bound import Work, combine, pipe_times
from analyzers.perturbation import Inferred, evidence, infer
from analyzers.rules.findings import explain
from analyzers.rules.rule import Finding
from analyzers.timeline.budget import Budget, budget
from analyzers.timeline.call import in_kernels
from analyzers.timeline.compare import Steps, each_step
from analyzers.timeline.of_step import in_step, of_ranges, of_step, of_whole
from analyzers.verdicts import shapes as by_shape
from analyzers.verdicts.analysis import Analysis, Recording, analyze
from analyzers.verdicts.statistics import Ratio
from analyzers.verdicts.verdict import Verdict
from analyzers.waterfall import Waterfall, waterfalls
from collectors.caveat import RANGES_OVERLAP, Caveat, unique
from collectors.counters import counter_set
from collectors.frame import host_of
from collectors.ncu import source
from profkit.annotation import Declared, read_declared
from profkit.rundir import harmless
from profkit.rundir.directory import Run, open_run
from profkit.rundir.manifest import Impl, Manifest
from profkit.study.caveats import caveats_of
from profkit.study.declared import declared_works
from profkit.study.files import Captured, devices_of, read_captures, read_csv, roofline_of
from profkit.study.verdicts import verdicts_of
from roofline.ceilings import Roofline


@dataclass(frozen=True)
class Part:
    """An implementation, or a range (`impl` None); `row`: its metrics in SI units if measured."""

    name: str
    impl: Impl | None
    row: Mapping[str, Any] | None


@dataclass(frozen=True)
class Study:
    """One run and its analyses, computed on first use.

    Damaged files raise ProfkitError. frames: launches frames by file that are already read.
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
        """run.json without control characters or deceptive text."""
        return harmless.struct(self.run.manifest)

    @cached_property
    def captured(self) -> Captured:
        """Launches from all files of the run, merged."""
        return read_captures(self.run, self.frames)

    @property
    def launches(self) -> pd.DataFrame | None:
        """Launches of one call of each part by the best tool; None without one."""
        return self.captured.launches

    @cached_property
    def timings(self) -> pd.DataFrame | None:
        """Samples of timings.csv, None if nothing was timed."""
        return read_csv(self.run.timings_csv)

    @cached_property
    def roofline(self) -> Roofline:
        """The ceilings of the run's own device."""
        return roofline_of(self.run, self.launches)

    @cached_property
    def declared(self) -> Mapping[str, Declared]:
        """Declared work by range, from the tool that recorded the shown launches."""
        launches = self.launches
        tool = str(launches["tool"].iloc[0]) if launches is not None and len(launches) else ""
        return read_declared(self.run.annotations(tool))

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis with the column `verdict`."""
        words = {name: one.word for name, one in self.verdicts.items()}
        impls = self._unjudged.impls
        said = impls["impl"].map(words)
        verdict = said.where(said.notna(), impls["verdict"])
        return replace(self._unjudged, impls=impls.assign(verdict=verdict))

    @cached_property
    def shapes(self) -> list[by_shape.Shape]:
        """Timed shapes, that of get_inputs() first; empty if it was the only one."""
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
        """(pass, figures), "forward" first; none without gradients."""
        first, found = self.timings, []
        if first is None:
            return []
        for one in self.manifest.passes:
            frame = read_csv(self.path / one.file)
            if frame is not None:
                found.append((one.name, by_shape.shape(one.wanted, frame, "reference")))
        return [("forward", by_shape.shape(self.manifest.inputs, first, "reference")), *found] if found else []

    @cached_property
    def weighted(self) -> Mapping[str, by_shape.Weighted]:
        """Call-weighted speed-up of each candidate; empty without SHARES."""
        served = self.manifest.served
        return by_shape.weighted(self.shapes, served.shares, served.program) if served is not None else {}

    @property
    def over_shapes(self) -> Mapping[str, Ratio]:
        """Speed-up over all shapes by candidate: weighted by calls, else the geometric mean."""
        told = {name: one.ratio for name, one in self.weighted.items()}
        return told or by_shape.geometric(self.shapes)

    @cached_property
    def verdicts(self) -> Mapping[str, Verdict]:
        """Verdict on each candidate by name; empty for a program."""
        return verdicts_of(self, self._unjudged)

    @cached_property
    def _unjudged(self) -> Analysis:
        manifest, launches = self.manifest, self.launches
        works, caveats = self._works()
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
                precisions={one.name: one.least.precision for one in manifest.impls if one.least is not None},
            ),
        )
        return replace(found, caveats=unique([*found.caveats, *caveats, *caveats_of(self)]))

    def _works(self) -> tuple[Mapping[str, tuple[Work, ...]], list[Caveat]]:
        """Work of the task, under "", or of each range."""
        if self.manifest.impls:
            return {"": tuple(Work.from_dict(row) for row in self.manifest.work)}, []
        if self.launches is None or self.launches.empty:
            return {}, []
        return declared_works(self.declared, self.launches, filtered=self.filtered)

    @cached_property
    def whose(self) -> Mapping[str, Provenance]:
        """Authorship for each correct candidate that defines kernels."""
        launches = self.launches
        if launches is None or launches.empty:
            return {}
        own = [impl for impl in self.manifest.candidates if impl.ok and impl.kernels]
        return {impl.name: provenance(launches[launches["impl"] == impl.name], impl.kernels) for impl in own}

    @cached_property
    def reduced_precision(self) -> list[Reduced]:
        """Candidates that computed below the precision of task and reference."""
        launches, reference = self.launches, self.manifest.reference
        if launches is None or launches.empty or reference is None:
            return []
        candidates = [impl.name for impl in self.manifest.candidates if impl.ok]
        return audit(launches, self.manifest.task, reference.name, candidates)

    @property
    def kernels(self) -> pd.DataFrame:
        """One row per kernel of each part, SI units; empty without a tool that saw launches."""
        return self.analysis.kernels

    @property
    def metrics(self) -> pd.DataFrame:
        """One row per part: time, speedup, achieved and attainable FLOP/s, ... in SI units."""
        return self.analysis.impls

    @property
    def calls(self) -> pd.DataFrame:
        """One row per timed implementation, its call as one kernel; for uncounted runs."""
        timed = self.metrics[self.metrics["time"] > 0]
        named: pd.DataFrame = timed.assign(
            kernel=timed["impl"], share=1.0, launches=1, intensity_dram=timed["intensity"]
        )
        return named

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Implementations except skipped ones, or ranges; in the order of the run."""
        rows = self.analysis.rows
        if self.manifest.impls:
            tried = [impl for impl in self.manifest.impls if impl.status != "skipped"]
            return tuple(Part(impl.name, impl, rows.get(impl.name)) for impl in tried)
        return tuple(Part(name, None, row) for name, row in rows.items())

    @cached_property
    def best(self) -> Part | None:
        """Fastest correct candidate, else the first measured implementation; None without one."""
        measured = [(one, one.row) for one in self.parts if one.impl is not None and one.row is not None]
        sound = [(one, row) for one, row in measured if one.impl in self.manifest.candidates and row["time"] > 0]
        if any(one.impl is not None and one.impl.ok for one, _ in sound):
            return min((float(row["time"]), one.name, one) for one, row in sound if one.impl and one.impl.ok)[2]
        return min((one for one, _ in measured), key=lambda one: one.name == self.analysis.reference, default=None)

    @cached_property
    def ranked(self) -> tuple[Part, ...]:
        """Parts by rank: best, correct ones by time, the others; ranges in the run's order."""
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
        """Whether the counters of --deep were collected."""
        own = set(counter_set("deep")) - set(counter_set("default"))
        known = self.launches
        return known is not None and any(known[name].notna().any() for name in own & set(known.columns))

    @cached_property
    def hottest(self) -> pd.DataFrame:
        """One row per kernel: of each implementation, or over all ranges, the longest first.

        `share`: of its implementation; of a step if known; of the program if only some launches were counted.
        """
        every = self.analysis.hottest
        if self.manifest.impls:
            at = {part.name: place for place, part in enumerate(self.ranked)}
            order = self.kernels["impl"].map(at).fillna(len(at)).argsort(kind="stable")
            ordered: pd.DataFrame = self.kernels.iloc[order].reset_index(drop=True)
            return ordered
        if "time" not in every:
            return every
        if self.stepwise:
            told = in_step(every, self.step, sum(one.step for one in self.budgets.values()))
            frame = self.captured.timeline
            return of_whole(told, frame, self.wall) if self.filtered and frame is not None else told
        if self.overlapping:
            every = at_least(every, self.analysis.kernels)
        whole = every["time"].sum() + (0.0 if self.launches is None else self.launches.attrs.get("unlisted", 0.0))
        shared: pd.DataFrame = every.assign(share=every["time"] / (whole or math.nan))
        return shared

    @property
    def overlapping(self) -> bool:
        """Whether ranges of an export count launches of overlapping ranges repeatedly."""
        return any(caveat.code == RANGES_OVERLAP for caveat in self.analysis.caveats)

    @cached_property
    def step(self) -> pd.DataFrame:
        """GPU work of a program's step; empty without a timeline."""
        return of_step(one for one in self.budgets.values() if one.window > 0)

    @cached_property
    def in_ranges(self) -> Mapping[str, tuple[float, float]]:
        """Range -> (seconds of kernels, kernels) per step, inner ranges included."""
        return of_ranges(self.step)

    @property
    def stepwise(self) -> bool:
        """Whether times of kernels and ranges are per step."""
        return len(self.step) > 0

    @property
    def filtered(self) -> bool:
        """Whether only some of a program's launches were counted."""
        return any(one.filtered for one in self.run.captures if one.role == "counters")

    @cached_property
    def of_operators(self) -> bool:
        """Whether a program's operators on the CPU were recorded, instead of a GPU's launches."""
        launches = self.launches
        return launches is not None and len(launches) > 0 and bool((launches["kind"] == "operator").all())

    @property
    def by_operator(self) -> bool:
        """Whether rows are operators: a CPU's, or those of a torch.profiler table without kernels."""
        told = "" if self.launches is None else self.launches.attrs.get("report", "")
        return self.of_operators or told == "operators"

    @property
    def host(self) -> pd.DataFrame | None:
        """Host calls of the timeline (collectors.kineto.host_frame), or None."""
        return None if self.captured.timeline is None else host_of(self.captured.timeline)

    @cached_property
    def wall(self) -> float:
        """Seconds of a program from the first to the last recorded work; NaN without a timeline."""
        frame = self.captured.timeline
        if frame is None or "start" not in frame:
            return math.nan
        return float((frame["start"] + frame["time"]).max() - frame["start"].min())

    def devices(self) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame | None]]:
        """(name or "", launches, host calls) of each process and device of a program."""
        frame = self.captured.timeline
        return iter(()) if frame is None or self.of_operators else devices_of(frame, self.host)

    @cached_property
    def budgets(self) -> Mapping[str, Budget]:
        """Wall time of a program by process and device; empty for a sample."""
        window, found = self.manifest.window, {}
        for key, part, calls in self.devices():
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
    def first_step(self) -> tuple[str, Budget] | None:
        """(name, budget) of the first process and device of a program that has a step."""
        return next((one for one in self.budgets.items() if one[1].window > 0), None)

    @cached_property
    def longest_step(self) -> tuple[str, Budget, Steps] | None:
        """(name, budget, steps) of the process and device with the longest step."""
        known = {name: one for name, one in self.budgets.items() if one.window > 0}
        if not known:
            return None
        name = max(known, key=lambda one: known[one].step)
        part = next(part for key, part, _ in self.devices() if key == name)
        return name, known[name], each_step(part, known[name])

    @cached_property
    def waterfalls(self) -> Mapping[str, Waterfall]:
        """Waterfall of one call of each part, down to its lower bound."""
        return {} if self.of_operators else waterfalls(self.analysis)

    @cached_property
    def inferred(self) -> Mapping[str, Inferred]:
        """Bottleneck of each implementation, inferred from times (--perturb)."""
        works = [Work.from_dict(row) for row in self.manifest.work]
        declared = next((one for one in works if one.source == "declared"), None)
        task = combine(declared, next((one for one in works if one.source == "modelled"), None))
        times = {str(row["impl"]): float(row["time"]) for row in self.metrics.to_dict("records")}
        found = {}
        for one in self.manifest.perturbed:
            if (time := times.get(one.impl)) is not None:
                uses = self._uses(task, time) if task is not None else {}
                found[one.impl] = infer(one.impl, evidence(time, uses, one.seconds))
        return found

    def _uses(self, task: Work, time: float) -> dict[str, float]:
        """Share of each known ceiling by the task's work in that time [s]."""
        needed = pipe_times(task.flops, self.roofline.peak)
        needed["dram"] = task.bytes / self.roofline.peak("dram")
        return {name: seconds / time for name, seconds in needed.items() if seconds > 0}

    @cached_property
    def lines(self) -> Sequence[Line]:
        """Source lines where kernels stall, by part and kernel."""
        files = [self.path / one.file for one in self.run.captures if one.role == "lines"]
        return lines_of([one for file in files for one in source.read(file)], self.waterfalls)

    def findings(self, kernel: str = "") -> list[Finding]:
        """Ranked findings; `kernel`: only kernels with this text in their name."""
        if kernel not in self._explained:
            self._explained[kernel] = [] if self.of_operators else self._explain(kernel)
        return list(self._explained[kernel])

    @cached_property
    def _explained(self) -> dict[str, list[Finding]]:
        return {}

    def _explain(self, kernel: str) -> list[Finding]:
        return explain(
            self.analysis,
            self.roofline,
            kernel=kernel,
            sms=float(self.manifest.device.get("sms") or self.manifest.device.get("threads") or math.nan),
            budgets=self.budgets,
            calls=self.waterfalls,
            steps=dict(self.hottest[["kernel", "step_time"]].itertuples(index=False, name=None))
            if self.filtered and self.stepwise
            else {},
            on_cpu={one.name: {**one.operators, "slower": self.manifest.timing.slower} for one in self.manifest.impls},
        )


def open_study(run: str | os.PathLike[str] | Study) -> Study:
    """Open a run directory, or the newest run below a path. Raises ProfkitError for none."""
    return run if isinstance(run, Study) else Study(open_run(run))
