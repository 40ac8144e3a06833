"""profkit ledger, tasks and verify: time and possible gain of a program's operations."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli import options as shared
from profkit.cli.terminal import progress, show
from profkit.contests.sources import write_new

_SOURCE = click.argument("source", type=click.Path(path_type=Path, exists=True), metavar="RUN_OR_TRACE")


@click.command("ledger")
@_SOURCE
@shared.output("A page (.html) or data (.json).")
@shared.json_
@shared.force
def ledger_(source: Path, output: Path | None, as_json: bool, force: bool) -> int:
    """List a program's operations by shape: time, lower bound, advice, possible gain.

    \b
    profkit ledger trace.json.gz               a trace of torch.profiler, with record_shapes=True
    profkit ledger profkit-runs/train          a run of a program: profkit profile -- python train.py
    profkit ledger trace.json.gz -o ledger.html

    Lower bounds follow from the call's compulsory bytes and FLOP, and from this device's measured ceilings
    (profkit ceilings) or else its datasheet. Gains are replayed: a faster kernel gains nothing if the host is late.
    """
    from profkit.report import ledger as report
    from profkit.study.ledger import open_ledger

    if output is not None:
        shared.vacant(output, force, ".html", ".json")
    found = open_ledger(source)
    if output is not None:
        output.write_text(found.data if output.suffix == ".json" else report.page(found, source), encoding="utf-8")
        click.echo(f"wrote {output}", err=True)
    if as_json:
        click.echo(found.data)
    elif output is None:
        show(report.text(found))
    return 0


@click.command("tasks")
@_SOURCE
@shared.output("Parent of the sample folders.", required=True, metavar="DIR")
@click.option(
    "--most", type=click.IntRange(1), default=8, show_default=True, metavar="N", help="The N hottest operations."
)
def tasks_(source: Path, output: Path, most: int) -> int:
    """Write a sample folder per hot operation: reference, candidate, shapes with their shares.

    \b
    profkit tasks trace.json.gz -o tasks
    profkit profile tasks/01-addmm

    Its verdict is weighted by calls; it says at which shapes a candidate is slower, and what it is worth in the program.
    """
    from profkit.contests import served
    from profkit.study.ledger import open_ledger

    for one in served.tasks(open_ledger(source), source.name, most):
        folder = write_new(one, output / one.name)
        click.echo(f"{folder}    # profkit profile {folder}")
    return 0


@click.command("verify")
@click.argument("ledger", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--with",
    "change",
    required=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A candidate of a task's folder (.py), or a patch for `git apply`.",
)
@click.option(
    "--row", default="", metavar="NAME", help="For a patch: the ledger's row it changes, or idle; default: the best."
)
@click.option(
    "--seconds", "timed", default="", metavar="PATTERN", help="Time by a pattern in stdout: 'step took (.*) ms'."
)
@click.option("--pairs", type=click.IntRange(3), default=5, show_default=True, metavar="N")
@shared.json_
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def verify_(ledger: Path, change: Path, row: str, timed: str, pairs: int, as_json: bool, argv: tuple[str, ...]) -> int:
    """Run COMMAND alternately with and without a change; compare gain, prediction and outputs.

    \b
    profkit verify ledger.json --with tasks/01-mm/candidate.py -- python serve.py
    profkit verify ledger.json --with fused.diff --row gelu --seconds 'step (.*) ms' -- python train.py

    LEDGER is a run, a trace, or the file of `profkit ledger -o ledger.json`. A patch is applied to a temporary copy of this
    folder; a candidate is compared with the operation called from Python. Without --seconds the whole
    process is timed, with start-up. Exit code 1 if the outputs differ.
    """
    from profkit.record.verify import verify
    from profkit.report.ledger import document, predicting
    from profkit.study.ledger import open_ledger

    told, rows = predicting(ledger, open_ledger, change, row)
    with progress(as_json) as now:
        found = verify(argv, change, pairs=pairs, timed=timed, progress=now)
    said = document(rows, told["step"], found, 1.0 if timed else told["whole"] / found.usual)
    shared.print_json(said) if as_json else click.echo(said["said"])
    return 0 if found.agrees else 1
