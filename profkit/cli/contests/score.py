"""profkit score: points and ranking of a season's samples."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profkit.cli import options as shared
from profkit.contests.gpucodeforces import score
from profkit.contests.gpucodeforces.form import submissions
from profkit.contests.gpucodeforces.score import Scored, Standing
from profkit.report.layout import Column, Table, terminal_table
from profkit.rundir.directory import find_runs

if TYPE_CHECKING:
    from profkit.study.study import Study

SCHEMA = "profkit-score/1"


@click.command("score", short_help="Points and ranking by the contest's rules.")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("S1"))
@shared.runs
@shared.json_
def command(folder: Path, runs: Path, as_json: bool) -> int:
    """Score every sample of FOLDER: 2 + 5 + 4 + 3 base points, bonus, and the contestants' ranking.

    \b
    profkit score S1 --json

    A sample is accepted when its form is right and its newest run (or a transcript saved beside it) passed.
    The contestant comes from metadata.json or a line `参赛者: NAME` in readme.md.
    """
    rows = score.ordered(score.score(one, _newest(runs / one.resolve().name)) for one in submissions(folder))
    standings = score.rank(rows)
    if as_json:
        document = {
            "schema": SCHEMA,
            "samples": [score.to_dict(row) for row in rows],
            "ranking": [asdict(s) for s in standings],
        }
        click.echo(json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False))
    else:
        click.echo(_render(rows, standings))
    return 0


def _newest(folder: Path) -> Study | None:
    from profkit.study.study import Study  # pandas

    done = [run for run in find_runs(folder) if run.manifest.status == "done"] if folder.is_dir() else []
    return Study(max(done, key=lambda run: run.manifest.created)) if done else None


def _render(rows: list[Scored], standings: list[Standing]) -> str:
    words = {True: "yes", False: "no", None: "?"}
    points = {"gt": "GT", "time": "time", "throughput": "throughput", "bandwidth": "bandwidth"}
    samples = [
        Column("sample", [row.id for row in rows]),
        Column("contestant", [row.contestant for row in rows], 2),
        Column("accepted", [words[row.accepted] for row in rows]),
        *(Column(head, [str(row.points[key]) for row in rows], 4) for key, head in points.items()),
        Column("base", [f"{row.base}/14" for row in rows]),
        Column("bonus", [str(row.bonus) for row in rows], 3),
        Column("speed-up", [row.speedup.text for row in rows], 1),
        Column("why", [_why(row) for row in rows]),
    ]
    ranking = [
        Column("place", [str(one.place or "-") for one in standings]),
        Column("contestant", [one.contestant for one in standings]),
        *(Column(key, [str(getattr(one, key)) for one in standings]) for key in ("accepted", "base", "bonus")),
        Column("samples", [" ".join(one.samples) for one in standings]),
    ]
    return "\n".join(terminal_table(Table.of(columns)) for columns in (samples, ranking)).rstrip()


def _why(row: Scored) -> str:
    return row.why + (
        f"; same case as {row.similar_to}: {row.similar}" if row.similar_to and row.similar != "similar" else ""
    )
