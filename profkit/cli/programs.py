"""profkit ledger, tasks and verify: what a program's operations take and can win."""

from __future__ import annotations

import json
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
    """List each operation at each shape: time, lower bound, what to do, what that wins.

    \b
    profkit ledger trace.json.gz               a trace of torch.profiler, with record_shapes=True
    profkit ledger profkit-runs/train          a run of a program: profkit profile -- python train.py
    profkit ledger trace.json.gz -o ledger.html

    Lower bounds are of that call's own bytes and FLOP, under this device's measured ceilings where they are kept
    (profkit ceilings), else the datasheet's. Wins are replayed: where the host is late, a faster kernel wins nothing.
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
@shared.output("A folder each, below it.", required=True, metavar="DIR")
@click.option(
    "--most", type=click.IntRange(1), default=8, show_default=True, metavar="N", help="The N hottest operations."
)
def tasks_(source: Path, output: Path, most: int) -> int:
    """Write a sample folder of each hot operation: reference, shapes with shares, candidate.

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
    "--row", default="", metavar="NAME", help="Of a patch: the row that it is for, or idle, instead of the best one."
)
@click.option("--seconds", "timed", default="", metavar="PATTERN", help="Time what stdout says: 'step took (.*) ms'.")
@click.option("--same", default="", metavar="FILE", help="Compare a file that it writes instead of stdout.")
@click.option("--pairs", type=click.IntRange(3), default=5, show_default=True, metavar="N")
@shared.json_
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def verify_(
    ledger: Path, change: Path, row: str, timed: str, same: str, pairs: int, as_json: bool, argv: tuple[str, ...]
) -> int:
    """Run COMMAND in turns with and without a change: won, predicted, and do outputs agree.

    \b
    profkit verify ledger.json --with tasks/01-mm/candidate.py -- python serve.py
    profkit verify ledger.json --with fused.diff --row gelu --seconds 'step (.*) ms' -- python train.py

    LEDGER is a run, a trace, or what `profkit ledger -o ledger.json` wrote. A patch is tried in a temporary copy of this
    folder; a candidate is compared with the operation itself, called from Python as well. Without --seconds the whole
    process is timed, start-up included. Exit code 1 where the outputs differ.
    """
    from profkit.record.verify import verify
    from profkit.report.ledger import document, predicting
    from profkit.study.ledger import open_ledger

    told, rows = predicting(ledger, open_ledger, change, row)
    with progress(as_json) as now:
        found = verify(argv, change, pairs=pairs, timed=timed, same=same, progress=now)
    said = document(rows, told["step"], found, 1.0 if timed else told["whole"] / found.usual)
    click.echo(json.dumps(said, ensure_ascii=False) if as_json else said["said"])
    return 0 if found.agrees else 1
