"""profkit compare and profkit gate: compare runs, fail on regressions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from profkit.cli import options as shared
from profkit.cli.options import PATH, Verb
from profkit.cli.terminal import show
from profkit.report.messages import speaking
from profkit.rundir.files import write_atomic

PAGES = (".html", ".htm")


def _fraction(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """ "5%" or "0.05" as a fraction; a bare 5 is an error."""
    if value is None:
        return None
    text = value.strip()
    try:
        number = float(text.rstrip("% ")) / (100 if text.endswith("%") else 1)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a fraction; write 5% or 0.05") from error
    if not 0 <= number < 10:
        raise click.BadParameter(f"{value!r} is not between 0 and 1000%")
    if number >= 1 and not text.endswith("%"):
        raise click.BadParameter(f"{value!r} is {number:.0%}; write {text}% for {text} %")
    return number


def _limit(text: str, default: str | None = None) -> Callable[[Verb], Verb]:
    shown = default is not None
    return click.option(
        "--fail-on-regression",
        "limit",
        callback=_fraction,
        default=default,
        show_default=shown,
        metavar="SHARE",
        help=text,
    )


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="BEFORE AFTER [MORE]...")
@_limit("Exit 1 if a step is slower than BEFORE by more than this, as in 5%.")
@shared.output("Write the roofline with arrows (.png, .svg), or a page (.html).")
@shared.lang("Language of programs' text, and initial language of the page.")
@shared.force
@shared.json_
def compare_(
    runs: tuple[str, ...],
    limit: float | None,
    output: Path | None,
    lang: str,
    force: bool,
    as_json: bool,
) -> int:
    """Compare runs: time, speed-up, share of the ceiling, and counters that changed.

    A step is RUN (its fastest correct candidate) or RUN:IMPLEMENTATION. Programs are compared by their steady step: its time
    and spread, GPU busy and idle time by cause, and kernels that appeared, are gone, faster or slower; on a CPU by their
    whole time or RUN:RANGE.

    \b
    profkit compare runs/before runs/after --fail-on-regression 5%
    profkit compare profkit-runs/ICJTRP:reference profkit-runs/ICJTRP:ori profkit-runs/ICJTRP:cuda -o ladder.png
    profkit compare runs/before runs/after -o compare.html

    Runs that differ in device, task, inputs, method or window are not comparable: their times stand without a speed-up,
    and the gate refuses them (exit code 2).
    """
    from profkit.report.compare import compared, named_runs  # pandas stays out of start-up

    if len(runs) < 2:
        raise click.UsageError("name at least two runs: BEFORE AFTER")
    done = compared(named_runs(runs))
    slower = done.slower(limit) if limit is not None else []
    unsure = done.ladder.inconclusive(limit) if limit is not None else []
    with speaking(lang):
        if output is not None:
            _write(done, output, force, limit)
            click.echo(f"wrote {output}", err=True)
        if not as_json:
            show(done.text())
    if as_json:
        told = {"regressions": [rung.label for rung in slower], "inconclusive": [rung.label for rung in unsure]}
        gate = {"limit": limit, **told} if limit is not None else None
        shared.print_json({**done.to_dict(), "gate": gate})
    if slower or unsure:
        click.echo(done.gate(limit)[0], err=True)
    return 1 if slower else 0


def _write(done: Any, output: Path, force: bool, limit: float | None) -> None:
    """Write a page or a figure, chosen by the extension."""
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

    save(draw(ladder_scene(done.chosen, done.ladder)), output)


@click.command("gate")
@click.argument("before", type=PATH)
@click.argument("after", type=PATH)
@_limit("Fail if the whole interval is slower than this.", "5%")
@shared.output("Write comment.md, junit.xml and roofline.png here.")
@click.option("--allow-missing", is_flag=True, help="Pass candidates missing from AFTER.")
@click.option("--strict", is_flag=True, help="Fail inconclusive or incomparable results.")
@click.option("--picture", default="", metavar="ADDRESS", help="Address of roofline.png in the comment.")
def gate_(before: Path, after: Path, limit: float, output: Path | None, picture: str, **how: bool) -> int:
    """Compare each sample's newest run below AFTER with its newest run below BEFORE.

    \b
    profkit gate runs-of-main runs-of-this-branch --fail-on-regression 5% -o out

    Exit code 1 when something is wrong, gone, or slower for sure; 2 when there is nothing to compare. Needs no GPU.
    """
    from profkit.campaign.gate import comment, judge, junit
    from profkit.report.figures import gate_scene, png

    found, studies = judge(before, after, limit, **how)
    text = comment(found, studies, limit, picture)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        suite = junit(found)
        made = {"comment.md": text.encode(), "roofline.png": png(gate_scene(studies)), "junit.xml": suite}
        for name, data in made.items():
            write_atomic(output / name, data)
        click.echo(f"wrote {', '.join(str(output / name) for name in made)}", err=True)
    click.echo(text, nl=False)
    return int(any(one.fails for one in found))
