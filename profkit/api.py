"""The Python interface: measure, open, compare and draw runs."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from profkit.contests.formats import measure as measure_folder
from profkit.errors import ProfkitError
from profkit.record.profile import profile as record_target
from profkit.record.request import Request
from profkit.report import explain as explaining
from profkit.report import figures
from profkit.report.compare import Compared, compared, named_runs
from profkit.report.dialects import DIALECTS
from profkit.report.sections import answer
from profkit.report.writers import markdown
from profkit.report.writers import notebook as showing
from profkit.study.study import Study, open_study
from profkit.targets.target import Call
from roofline.figure.plot import draw as draw_scene

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from profkit.targets.target import Target


SWEPT = (
    *("impl", "verdict", "time", "time_low", "time_high", "speedup", "speedup_low", "speedup_high"),
    *("lower_bound_ratio", "achieved_flops", "dram_bandwidth", "bound_by"),
)
"""Columns of a sweep."""


class Text(str):
    """Text that a notebook shows unchanged."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The same, with breaks between words in narrow cells."""
        return f'<pre style="white-space:pre-wrap;word-break:normal">{escape(self)}</pre>'


class Run(Study):
    """A run for Python and notebooks: a Study with the verbs as methods."""

    @classmethod
    def of(cls, study: Study) -> Run:
        """The same run as a Run; nothing is read or computed again."""
        if isinstance(study, cls):
            return study
        found = cls(study.run, study.frames)
        found.__dict__.update(study.__dict__)
        return found

    def explain(self, kernel: str = "") -> Text:
        """Why it is slow, and what to try; `findings()` has the same as data."""
        return Text(explaining.text(self, self.findings(kernel)))

    def report(self, reader: str = "", lang: str = "en") -> Text:
        """report.md as text, or the output of `profkit report --for READER` (agent, pr, html)."""
        if not reader:
            return Text(markdown.report(self))
        if reader not in DIALECTS:
            raise ProfkitError(f"no report for {reader!r}", fix=f"use one of: {', '.join(DIALECTS)}")
        return Text(DIALECTS[reader].document((self,), lang).text)

    def __repr__(self) -> str:
        said = "; ".join(answer.first_lines(self))
        return f"<Run {answer.title(self)}: {said} ({self.path.as_posix()})>"

    def _repr_html_(self) -> str:
        return showing.html(self)


def profile(target: str | os.PathLike[str] | Callable[..., Any] | Target, *arguments: Any, **options: Any) -> Run:
    """Measure a folder, a callable or a Program; see profkit.record.profile.profile."""
    if isinstance(target, (str, os.PathLike)) and not arguments:
        progress, answer = (options.pop(name, lambda _: None) for name in ("progress", "answer"))
        request = options.pop("request", None) or Request.of(options)
        return Run.of(measure_folder(Path(target), request, progress, answer))
    return Run(record_target(target, *arguments, **options))


def measure(
    call: Callable[..., Any], *arguments: Any, reference: Callable[..., Any] | None = None, **options: Any
) -> Run:
    """Time call(*arguments) in this process, alternating with a `reference` if given.

    options: device, budget [s], target, l2 (cold, warm), runs. Raises the calls' exceptions.
    """
    return Run(record_target(Call(call, arguments, reference), **options))


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run directory, or the newest below `path`. Raises ProfkitError if there is none."""
    return Run.of(open_study(path))


def compare(*runs: Study | str | os.PathLike[str], impl: str = "") -> Compared:
    """Compare Studies, paths, or "RUN:IMPLEMENTATION" as steps, programs by their steady step.

    impl: for every run; default its fastest correct one. Raises ProfkitError for fewer than two, or a missing time.
    """
    if len(runs) < 2:
        raise ProfkitError("one run cannot be compared", fix="name BEFORE and AFTER")
    named = [
        (one, impl) if isinstance(one, Study) else named_runs([os.fspath(one) + (f":{impl}" if impl else "")])[0]
        for one in runs
    ]
    return compared(named)


def draw(run: Study | str | os.PathLike[str], *, theme: str = "light") -> Figure:
    """The roofline of a run or path as a matplotlib Figure; `theme` is light or dark."""
    return figures.draw(open_study(run), theme=theme)


def roofline(*runs: Study | str | os.PathLike[str], **options: Any) -> Figure:
    """Kernels of runs on one roofline; options of `profkit roofline`: levels, top, theme."""
    figure: Figure = draw_scene(figures.kernels_scene([open_study(one) for one in runs], **options))
    return figure


def sweep(
    call: Callable[..., Any],
    grid: Mapping[str, Sequence[Any]],
    *,
    inputs: Callable[..., Sequence[Any]] | None = None,
    reference: Callable[..., Any] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Measure call(**point), or call(*inputs(**point)), at every point of a grid.

    One row per point and implementation, the last axis fastest: the axes, SWEPT in SI units, the path of the run;
    options of `measure`. Raises ProfkitError without any point.
    """
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if not grid or not points:
        raise ProfkitError("a grid without points", fix='give values: {"n": [1024, 2048]}')
    rows = []
    for point in points:
        if inputs is not None:
            run = measure(call, *inputs(**point), reference=reference, **options)
        else:
            other = None if reference is None else _at(reference, point)
            run = measure(_at(call, point), reference=other, **options)
        told = {**point, "run": run.path.as_posix()}
        rows += [{**told, **{name: row.get(name) for name in SWEPT}} for row in run.metrics.to_dict("records")]
    frame: pd.DataFrame = pd.DataFrame(rows, columns=[*grid, *SWEPT, "run"])
    return frame


def _at(call: Callable[..., Any], point: Mapping[str, Any]) -> Callable[[], Any]:
    """call(**point) as a callable without arguments, under the same name."""
    return functools.wraps(call)(functools.partial(call, **point))
