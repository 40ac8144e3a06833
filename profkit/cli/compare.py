"""profkit compare: runs as an optimisation ladder, and a gate against regressions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from profkit.cli import options as shared
from profkit.cli.terminal.screen import show
from profkit.report import ladder as view
from profkit.report.messages import LANGUAGES, speaking
from profkit.report.writers.junit import Case, document
from profkit.rundir.files import write_atomic

PAGES = (".html", ".htm")


def fraction(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """ "5%" or "0.05" as a fraction; a bare 5 is neither 5 % nor meant as 500 %."""
    if value is None:
        return None
    try:
        number = float(value.rstrip("% ")) / (100 if value.strip().endswith("%") else 1)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no share; write 5% or 0.05") from error
    if not 0 <= number < 10:
        raise click.BadParameter(f"{value!r} is no share between 0 and 1000%")
    if number >= 1 and not value.strip().endswith("%"):
        raise click.BadParameter(f"{value!r} is {number:.0%}; write {value.strip()}% if that is meant")
    return number


@click.command("compare", short_help="Runs as an optimisation ladder.")
@click.argument("runs", nargs=-1, required=True, metavar="BEFORE AFTER [MORE]...")
@click.option(
    "--fail-on-regression",
    "limit",
    callback=fraction,
    metavar="SHARE",
    help="Exit 1 when a step is slower than BEFORE by more than this, as in 5%.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the roofline with arrows (.png, .svg), or a page (.html).",
)
@click.option(
    "--lang",
    type=click.Choice(LANGUAGES),
    default="en",
    show_default=True,
    help="Language of what is said of programs, and that the page opens in.",
)
@shared.force
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write the gate as JUnit's XML.")
@shared.json_
def command(
    runs: tuple[str, ...],
    limit: float | None,
    output: Path | None,
    lang: str,
    force: bool,
    junit: Path | None,
    as_json: bool,
) -> int:
    """Each step's change, time, speed-up, share of the attainable, and the counters that moved; of two programs their step.

    A step is RUN (its fastest correct candidate) or RUN:IMPLEMENTATION. Programs are compared by their steady step: its time
    with the spread of the steps, GPU busy and idle by cause, the kernels that appeared, are gone, slower or faster.

    \b
    profkit compare runs/before runs/after --fail-on-regression 5%
    profkit compare profkit-runs/ICJTRP:reference profkit-runs/ICJTRP:ori profkit-runs/ICJTRP:cuda -o ladder.png
    profkit compare runs/before runs/after -o compare.html

    Runs of different devices, clocks, methods or windows are compared with a caveat, and never gated (exit code 2).
    """
    from profkit.report.programs import compared  # pandas stays out of start-up

    if len(runs) < 2:
        raise click.UsageError("name at least two runs: BEFORE AFTER")
    done = compared(view.named_runs(runs))
    if output is not None:
        with speaking(lang):
            _write(done, output, force, limit)
    slower = done.slower(limit) if limit is not None else []
    unsure = done.inconclusive(limit) if limit is not None else []
    rungs = done.found.rungs
    if junit is not None:
        write_atomic(junit, document("profkit compare", [_case(rung, slower, unsure) for rung in rungs[1:]]))
    if as_json:
        told = {"regressions": [rung.label for rung in slower], "inconclusive": [rung.label for rung in unsure]}
        gate = {"limit": limit, **told} if limit is not None else None
        click.echo(json.dumps({**done.found.to_dict(), "gate": gate}, ensure_ascii=False, allow_nan=False))
    else:
        with speaking(lang):
            show(done.text())
    for rung in slower:
        click.echo(f"regression: {rung.label} takes {1 / rung.total - 1:+.1%} of BEFORE's time more", err=True)
    for rung in unsure:
        click.echo(f"inconclusive: {rung.label}: the limit lies inside its interval: record more steps", err=True)
    return 1 if slower else 0


def _case(rung: Any, slower: list[Any], unsure: list[Any]) -> Case:
    said = f"{1 / rung.total - 1:+.1%} of the first step's time"
    words = f"{rung.verdict}, {said}" + (", the limit lies inside the interval" if rung in unsure else "")
    return Case("profkit", rung.label, rung.time, failure=said if rung in slower else "", says=words)


def _write(done: Any, output: Path, force: bool, limit: float | None) -> None:
    """The page, or the figure, by the extension."""
    shared.vacant(output, force)
    if output.suffix in PAGES:
        from profkit.report.page.compare import page_of  # pandas stays out of start-up

        write_atomic(output, page_of(done, limit).encode())
        return
    if not done.chosen:
        raise click.UsageError(
            f"{output}: programs are compared by their step, which has no roofline: write a page, .html"
        )
    from profkit.report.figures import ladder_scene  # so does matplotlib
    from roofline.figure.plot import draw, save

    save(draw(ladder_scene(done.chosen, done.found)), output)
