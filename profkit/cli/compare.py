"""profkit compare: runs as an optimisation ladder, and a gate against regressions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from profkit.cli.screen import show
from profkit.errors import ProfkitError
from profkit.report import ladder as view
from profkit.report.words import LANGUAGES
from profkit.report.writers.junit import Case, document
from profkit.rundir.files import write_atomic

PAGES = (".html", ".htm")


def fraction(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """ "5%" or "0.05" as a fraction."""
    if value is None:
        return None
    try:
        number = float(value.rstrip("% ")) / (100 if value.strip().endswith("%") else 1)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no share; write 5% or 0.05") from error
    if not 0 <= number < 10:
        raise click.BadParameter(f"{value!r} is no share between 0 and 1000%")
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
    "--lang", type=click.Choice(LANGUAGES), default="en", show_default=True, help="Language the page opens in."
)
@click.option("--force", is_flag=True, help="Overwrite an existing output.")
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write the gate as JUnit's XML.")
@click.option("--sarif", type=click.Path(path_type=Path), metavar="FILE", help="Write it as SARIF for code scanning.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    runs: tuple[str, ...],
    limit: float | None,
    output: Path | None,
    lang: str,
    force: bool,
    junit: Path | None,
    sarif: Path | None,
    as_json: bool,
) -> int:
    """Each step's change, time, speed-up, share of the attainable, and the counters that moved.

    A step is RUN (its fastest correct candidate) or RUN:IMPLEMENTATION.

    \b
    profkit compare runs/before runs/after --fail-on-regression 5%
    profkit compare profkit-runs/ICJTRP:reference profkit-runs/ICJTRP:ori profkit-runs/ICJTRP:cuda -o ladder.png
    profkit compare runs/before runs/after -o compare.html

    Runs of different devices, clocks or methods are compared with a doubt, and never gated (exit code 2).
    """
    if len(runs) < 2:
        raise click.UsageError("name at least two runs: BEFORE AFTER")
    chosen = view.choose(runs)
    ladder = view.ladder_of(chosen)
    if output is not None:
        _write(chosen, ladder, output, force, limit, lang)
    slower = _gate(ladder, limit)
    if junit is not None:
        write_atomic(junit, document("profkit compare", [_case(rung, slower) for rung in ladder.rungs[1:]]))
    if sarif is not None:
        from profkit.campaign.gate import log_of_steps  # pandas stays out of start-up

        steps = [(one.study, rung) for one, rung in zip(chosen, ladder.rungs, strict=True)]
        write_atomic(sarif, log_of_steps(steps, slower).encode())
    if as_json:
        gate = {"limit": limit, "regressions": [rung.label for rung in slower]} if limit is not None else None
        click.echo(json.dumps({**ladder.to_dict(), "gate": gate}, ensure_ascii=False, allow_nan=False))
    else:
        show(view.text(ladder))
    for rung in slower:
        click.echo(f"regression: {rung.label} takes {1 / rung.total - 1:+.1%} of BEFORE's time more", err=True)
    return 1 if slower else 0


def _gate(ladder: Any, limit: float | None) -> list[Any]:
    if limit is None:
        return []
    if ladder.apart:
        raise ProfkitError(
            f"cannot gate: the runs differ in {', '.join(ladder.apart)}",
            fix="measure BEFORE and AFTER on one device, by one method, at one clock",
        )
    found: list[Any] = ladder.regressions(limit)
    return found


def _case(rung: Any, slower: list[Any]) -> Case:
    said = f"{1 / rung.total - 1:+.1%} of the first step's time"
    return Case(
        "profkit", rung.label, rung.time, failure=said if rung in slower else "", says=f"{rung.verdict}, {said}"
    )


def _write(chosen: Any, ladder: Any, output: Path, force: bool, limit: float | None, lang: str) -> None:
    """The page, or the figure, by the extension."""
    if output.exists() and not force:
        raise click.UsageError(f"{output} exists, will not overwrite it without --force")
    if output.suffix in PAGES:
        from profkit.report.writers.compare_html import page  # pandas stays out of start-up

        write_atomic(output, page(chosen, ladder, limit, lang).encode())
        return
    from roofline.plot import draw, save  # so does matplotlib

    save(draw(view.scene_of(chosen, ladder)), output)
