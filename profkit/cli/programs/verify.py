"""profkit verify: a change tried in the program itself, against what the ledger predicted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click

from profkit.cli import options as shared
from profkit.cli.progress import progress
from profkit.errors import ProfkitError


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
@shared.quiet
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    ledger: Path,
    change: Path,
    row: str,
    timed: str,
    same: str,
    pairs: int,
    as_json: bool,
    quiet: bool,
    argv: tuple[str, ...],
) -> int:
    """Run COMMAND in turns with and without a change: what it won, what the ledger had predicted, whether outputs agree.

    \b
    profkit verify ledger.json --with tasks/01-mm/candidate.py -- python serve.py
    profkit verify ledger.json --with fused.diff --row gelu --seconds 'step (.*) ms' -- python train.py

    LEDGER is a run, a trace, or what `profkit ledger -o ledger.json` wrote. A patch is tried in a temporary copy of this
    folder. Without --seconds the whole process is timed, start-up included. Exit code 1 where the outputs differ.
    """
    from profkit.record.verify import verify
    from profkit.report.ledger import verified

    told = _told(ledger)
    rows = _rows(told, change, row)
    with progress(quiet) as now:
        found = verify(argv, change, pairs=pairs, timed=timed, same=same, progress=now)
    covered = 1.0 if timed else min(1.0, told["whole"] / sorted(found.before)[len(found.before) // 2])
    document = verified(rows, found, covered)
    click.echo(json.dumps(document, ensure_ascii=False) if as_json else document["said"])
    return 0 if found.agrees else 1


def _told(source: Path) -> dict[str, Any]:
    """The data of a ledger."""
    from analyzers.ledger.ledger import SCHEMA, to_dict
    from profkit.cli.programs.opened import opened

    if source.suffix == ".json":
        try:
            found = json.loads(source.read_text("utf-8"))
        except ValueError:
            found = None
        if isinstance(found, dict) and found.get("schema") == SCHEMA:
            return found
    return to_dict(opened(source))


def _rows(told: dict[str, Any], change: Path, name: str) -> list[dict[str, Any]]:
    """The rows that a change is for. Raises ProfkitError where none wins anything."""
    rows = [one for one in told["rows"] if one["wins"][1] is not None]
    if change.suffix == ".py":
        found = re.search(r'^OPERATION, PLACES = "([^"]+)"', change.read_text("utf-8"), re.MULTILINE)
        if found is None:
            raise ProfkitError(
                f"{change}: does not say whose place it takes", fix="keep OPERATION, PLACES of `profkit tasks`"
            )
        mine = [one for one in rows if json.loads(one["op"] or '[""]')[0] == found[1]]
    elif name:
        mine = [one for one in rows if name in f"{one['name']} {one['shapes']}"]
    else:
        mine = sorted(rows, key=lambda one: -one["wins"][1])[:1]
    if not mine:
        known = ", ".join(dict.fromkeys(one["name"] for one in rows[:8]))
        raise ProfkitError("the ledger predicts nothing for this change", fix=f"its rows: {known or 'none that win'}")
    return mine
