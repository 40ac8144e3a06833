"""Scenes of the roofline and waterfall figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analyzers.compare import NOT_COMPARABLE
from analyzers.records import number
from analyzers.verdicts.speedup import shown
from profkit.errors import ProfkitError
from profkit.report import waterfall
from profkit.report.compare import told_apart
from profkit.report.messages import named, of_figures, say, speaking, spoken
from profkit.report.names import names_of
from profkit.report.sections import answer, caveats, method
from profkit.study.study import Study
from roofline import units
from roofline.figure import plot
from roofline.figure.bars import Step, draw_steps
from roofline.figure.scene import Arrow, LowerBoundPoint, Point, Scene

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from analyzers.compare import Ladder
    from profkit.report.compare import Chosen

TOP_KERNELS = 12


def draw(study: Study, *, theme: str = "light") -> Figure:
    """Draw the roofline of a run as a matplotlib Figure; `theme` is light or dark."""
    figure: Figure = plot.draw(scene_of(study, theme))
    return figure


def drawn(study: Study) -> dict[str, Figure]:
    """Pictures of a run by name: the roofline of kernels, the waterfall of what was timed."""
    made = {} if study.of_operators else {"roofline": draw(study)}
    steps = steps_of(study)
    return made if steps is None else {**made, "waterfall": draw_steps(*steps)}


def steps_of(study: Study) -> tuple[list[Step], str, str] | None:
    """Waterfall, title and subtitle of the best implementation, a step or the longest range."""
    whole = waterfall.shown(study)
    if whole is None:
        return None
    bars = [Step(whole.head, "", 0.0, whole.time, units.text(whole.time, "s"))]
    for one in whole.blocks:
        amount = f"{units.text(one.seconds, 's')}  {units.percent(one.share(whole.time))}"
        bars.append(Step(one.label(), one.why(), max(0.0, one.top - one.seconds), one.top, amount, one.paint))
    where = {"sample": answer.ran(study), "time": units.text(whole.time, "s"), "impl": whole.name}
    subtitle = ", ".join(part for part in (answer.task(study), answer.device(study), whole.line) if part)
    return bars, say("fall_title", **where), subtitle


def png(scene: Scene) -> bytes:
    """Render a scene as PNG bytes."""
    return plot.image(plot.draw(scene), Path("figure.png"))


def scene_of(study: Study, theme: str = "light") -> Scene:
    """Roofline of one run: implementations, kernels and speed-ups; a program's kernels only."""
    with speaking(spoken()):
        return _scene(study, theme) if study.manifest.impls else kernels_scene([study], theme=theme)


def _scene(study: Study, theme: str) -> Scene:
    points = {part.name: _whole(part.row, study) for part in study.parts if part.row is not None}
    whole = {name: point for name, point in points.items() if point is not None}
    start = whole.get(study.analysis.reference)
    gains = {name: float(study.analysis.impl(name)["speedup"]) for name in whole}
    words = {name: one.word for name, one in study.verdicts.items()}
    arrows = [
        Arrow(start, end, _ratio(gains[name], words.get(name, "")))
        for name, end in whole.items()
        if start is not None and end is not start and start.placed and end.placed
    ]
    return Scene(
        roofline=study.roofline,
        points=(*whole.values(), *_kernel_points(study)),
        arrows=tuple(arrows),
        lower_bounds=tuple(LowerBoundPoint(*one) for one in method.lower_bounds(study)),
        order=order_of(study),
        winner=study.best.name if study.best is not None else "",
        theme=theme,
        words=of_figures(),
        title=_title([study]),
        subtitle=_subtitle([study]),
        caption=_caption(study),
    )


def order_of(study: Study) -> tuple[str, ...]:
    """Parts of a run in colour order, the same in pictures and pages."""
    names = dict.fromkeys([*(part.name for part in study.parts), *map(str, study.metrics["impl"])])
    return tuple(name or "kernels" for name in names)


def _whole(row: Mapping[str, Any], study: Study) -> Point | None:
    """Point of one implementation: work of one call over its time."""
    name, kernels = str(row["impl"]), study.kernels
    count = int((kernels["impl"] == name).sum()) if len(kernels) else 0
    if not (math.isfinite(number(row, "achieved_flops")) or math.isfinite(number(row, "dram_bandwidth"))):
        return None
    return _point(row, name + (say("fig_all", count=str(count)) if count > 1 else ""), name)


def _kernel_points(study: Study) -> list[Point]:
    """Longest kernels of the best implementation and the reference, if they launch several."""
    kernels = study.kernels
    if not len(kernels):
        return []
    shown = {study.analysis.reference, study.best.name if study.best is not None else ""}
    several = (kernels.groupby("impl")["kernel"].transform("size") > 1) & kernels["impl"].isin(shown)
    longest = kernels[several].sort_values("time", ascending=False).head(TOP_KERNELS)
    rows = longest.to_dict("records")
    return [_point(row, *names) for row, *names in zip(rows, names_of(rows), longest["impl"], strict=True)]


def _point(row: Mapping[Any, Any], label: str, impl: str, level: str = "dram") -> Point:
    """The work of a call over its time at DRAM, or a kernel at one memory level."""
    of_call = "intensity" in row
    return Point(
        label or str(row["kernel"]),
        number(row, "intensity" if of_call else f"intensity_{level}"),
        number(row, "achieved_flops"),
        number(row, f"{level}_bandwidth"),
        str(row.get("compute", "")) or "fp32",
        level,
        impl,
        number(row, "time"),
        number(row, "share"),
        number(row, "attainable_fraction") if of_call else math.nan,
    )


def _ratio(value: float, word: str) -> str:
    """Text of a speed-up, marked if inconclusive; "not comparable" alone; "" if unknown."""
    if word == NOT_COMPARABLE:
        return say(f"c_{word}")
    if math.isnan(value):
        return ""
    told = shown(value, "ratio")
    return f"{told} {say('c_inconclusive')}" if word == "inconclusive" else told


def _title(studies: Sequence[Study]) -> str:
    """Title: the task of one sample, else the names."""
    names, task = list(dict.fromkeys(map(answer.ran, studies))), answer.task(studies[0])
    if len(names) > 1 or not task:
        return ", ".join(names)
    return task if names[0] in task else names[0] + say("colon") + task


def _subtitle(studies: Sequence[Study]) -> str:
    drivers = {str(study.manifest.device["driver"]) for study in studies if "driver" in study.manifest.device}
    torch = {str(study.manifest.versions["torch"]) for study in studies if "torch" in study.manifest.versions}
    return say("comma").join(
        [
            *_devices(studies),
            *(f"{say('driver')} {driver}" for driver in sorted(drivers)),
            *(f"torch {version}" for version in sorted(torch)),
        ]
    )


def _devices(studies: Iterable[Study]) -> list[str]:
    return list(dict.fromkeys(answer.device(study) for study in studies))


def _caption(study: Study) -> tuple[str, ...]:
    counters = study.manifest.counters
    if counters.state != "collected":
        return (method.counters_line(study),)
    least = method.fewest(study)
    times = [say("fig_times", count=str(least), state=named(method.cache_of(study)))] if least else []
    return (*times, say("fig_counted", version=counters.version) + _clock(study, say("comma")))


def _clock(study: Study, before: str) -> str:
    clock = float(study.kernels["sm_clock"].median()) if "sm_clock" in study.kernels else math.nan
    return "" if math.isnan(clock) else before + say("fig_clock", clock=units.text(clock, "Hz"))


# ---- steps of a ladder


def ladder_scene(chosen: Sequence[Chosen], ladder: Ladder, theme: str = "light") -> Scene:
    """Roofline of the first run's device with an arrow a step."""
    rungs = ladder.rungs
    labels = [f"{rung.label}, {units.text(rung.time, 's')}" for rung in rungs]
    points = [_point(one.row, label, rung.label) for one, label, rung in zip(chosen, labels, rungs, strict=True)]
    # Over the first, as the verdicts on candidates are over the reference.
    gains = [_ratio(rung.total, rung.since.verdict) for rung in rungs[1:]]
    points = [
        one if one.placed or not gain else replace(one, label=f"{one.label}, {gain}")
        for one, gain in zip(points, ["", *gains], strict=True)
    ]
    pairs = zip(pairwise(points), gains, strict=True)
    with speaking(spoken()):
        return Scene(
            roofline=chosen[0].study.roofline,
            points=tuple(points),
            arrows=tuple(Arrow(a, b, gain) for (a, b), gain in pairs if a.placed and b.placed),
            order=ladder_order(chosen, ladder),
            winner=min(rungs, key=lambda rung: rung.time).label,
            theme=theme,
            words=of_figures(),
            steps=True,
            title=" -> ".join(rung.label for rung in rungs),
            subtitle=", ".join([_title([one.study for one in chosen]), *_devices(one.study for one in chosen)]),
            caption=(say("fig_step", first=rungs[0].label), *(caveats.Said.of(one).line() for one in ladder.caveats)),
        )


def ladder_order(chosen: Sequence[Chosen], ladder: Ladder) -> tuple[str, ...]:
    """Steps in colour order; steps of one run have the colours of that run's pictures."""
    labels = [rung.label for rung in ladder.rungs]
    own = [part.name for part in chosen[0].study.parts]
    return tuple(own if set(labels) <= set(own) and len({one.study.path for one in chosen}) == 1 else labels)


# ---- kernels of several runs


def kernels_scene(
    studies: Sequence[Study],
    *,
    levels: Sequence[str] = ("dram",),
    top: int = TOP_KERNELS,
    theme: str = "light",
    references: bool = True,
) -> Scene:
    """The `top` longest kernels of the runs under the ceilings of their device.

    levels: memory levels, one point each. references: include the references' kernels. Raises ProfkitError if devices
    differ or nothing can be drawn.
    """
    if not studies:
        raise ProfkitError("no runs to draw", fix="name run directories")
    devices = _devices(studies)
    if len(devices) > 1:
        raise ProfkitError(
            f"these runs are of different devices: {'; '.join(devices)}", fix="draw each device separately"
        )
    roof = max(
        (study.roofline for study in studies),
        key=lambda one: (sum(c.source == "measured" for c in one.ceilings), len(one.ceilings)),
    )
    samples = [study.manifest.sample.id for study in studies]
    labels = told_apart(studies, samples) if len(studies) > 1 else [""]
    kernels = pd.concat([_labelled(study, name, references) for study, name in zip(studies, labels, strict=True)])
    kernels = kernels.reset_index(drop=True)
    shown_ = kernels.sort_values("time", ascending=False, kind="stable").head(top) if len(kernels) else kernels
    rows = shown_.to_dict("records")
    hidden = len(kernels) - len(rows)
    # A kernel's place follows the tool that counted it, whatever timed the whole.
    alone = len(studies) == 1
    timed = [
        method.kernel_times_line(one) + (_clock(one, say("semicolon")) if alone else "")
        for one in studies
        if len(one.kernels)
    ]
    captions = dict.fromkeys(filter(None, [*timed, *map(method.counters_line, studies)]))
    captions |= {say("fig_hidden", count=str(hidden)): None} if hidden else {}
    return Scene(
        roofline=roof,
        points=tuple(
            _point(row, name, str(row["impl"]), level)
            for row, name in zip(rows, names_of(rows), strict=True)
            for level in levels
        ),
        order=order_of(studies[0]) if len(studies) == 1 else (),
        title=_title(studies),
        subtitle=_subtitle(studies),
        theme=theme,
        words=of_figures(),
        levels=tuple(levels),
        caption=tuple(captions),
    )


def _labelled(study: Study, label: str, references: bool) -> pd.DataFrame:
    """Kernels of a run, else its calls, with the run's label before implementation or range."""
    kernels = study.kernels
    placed = [name for name in ("achieved_flops", "dram_bandwidth") if name in kernels and kernels[name].notna().any()]
    if study.manifest.impls and not placed:
        kernels = study.calls
    if not len(kernels):
        return kernels
    if not references:
        kernels = kernels[~kernels["impl"].isin([one.name for one in study.manifest.impls if one.role == "reference"])]
    own = kernels["impl"].astype(str)
    own = own.where(own != "", "" if label else "kernels")
    labelled: pd.DataFrame = kernels.assign(impl=[": ".join(filter(None, (label, name))) for name in own])
    return labelled


def gate_scene(studies: Sequence[Study]) -> Scene:
    """Longest kernels of the candidates of many runs, on the first run's device."""
    first = _devices(studies)[:1]
    return kernels_scene([study for study in studies if _devices([study]) == first], references=False)
