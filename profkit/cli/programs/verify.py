"""profkit verify: a change tried in the program itself, against what the ledger predicted."""

from __future__ import annotations

import json
from pathlib import Path

import click

from profkit.cli import options as shared
from profkit.cli.terminal.progress import progress


@click.command("verify", short_help="A change in the program itself: predicted and got.")
@click.argument("ledger", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--with",
    "change",
    required=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A candidate of a task's folder (.py), or a patch for `git apply`.",
)
@click.option("--row", default="", metavar="NAME", help="Of a patch: the row that it is for, instead of the best one.")
@click.option("--seconds", "timed", default="", metavar="PATTERN", help="Time what stdout says: 'step took (.*) ms'.")
@click.option("--same", default="", metavar="FILE", help="Compare a file that it writes instead of stdout.")
@click.option("--pairs", type=click.IntRange(3), default=5, show_default=True, metavar="N")
@shared.json_
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    ledger: Path, change: Path, row: str, timed: str, same: str, pairs: int, as_json: bool, argv: tuple[str, ...]
) -> int:
    """Run COMMAND in turns with and without a change: what it won, what the ledger had predicted, whether outputs agree.

    \b
    profkit verify ledger.json --with tasks/01-mm/candidate.py -- python serve.py
    profkit verify ledger.json --with fused.diff --row gelu --seconds 'step (.*) ms' -- python train.py

    LEDGER is a run, a trace, or what `profkit ledger -o ledger.json` wrote. A patch is tried in a temporary copy of this
    folder. Without --seconds the whole process is timed, start-up included. Exit code 1 where the outputs differ.
    """
    from profkit.record.verify import verify
    from profkit.report.traces.verified import document, predicting
    from profkit.study.ledger import open_ledger

    told, rows = predicting(ledger, open_ledger, change, row)
    with progress(as_json) as now:
        found = verify(argv, change, pairs=pairs, timed=timed, same=same, progress=now)
    said = document(rows, told["step"], found, 1.0 if timed else told["whole"] / found.usual)
    click.echo(json.dumps(said, ensure_ascii=False) if as_json else said["said"])
    return 0 if found.agrees else 1
