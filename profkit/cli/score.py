"""profkit score: points and ranking of a season's samples."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profkit.contests.gpucodeforces import score
from profkit.contests.gpucodeforces.form import submissions
from profkit.contests.gpucodeforces.score import Scored, Standing
from profkit.rundir.directory import find_runs

if TYPE_CHECKING:
    from profkit.study.study import Study

SCHEMA = "profkit-score/1"


@click.command("score", short_help="Points and ranking by the contest's rules.")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("S1"))
@click.option(
    "--runs", type=click.Path(path_type=Path, file_okay=False), default=Path("profkit-runs"), show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
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
    from profkit.report.layout import Table, terminal_table

    words = {True: "yes", False: "no", None: "?"}
    samples = Table(
        [
            "sample",
            "contestant",
            "accepted",
            "GT",
            "time",
            "throughput",
            "bandwidth",
            "base",
            "bonus",
            "speed-up",
            "why",
        ],
        [
            [
                row.id,
                row.contestant,
                words[row.accepted],
                *(str(v) for v in row.points.values()),
                f"{row.base}/14",
                str(row.bonus),
                _speedup(row),
                _why(row),
            ]
            for row in rows
        ],
        (0, 2, 0, 4, 4, 4, 4, 0, 3, 1, 0),
    )
    ranking = Table(
        ["place", "contestant", "accepted", "base", "bonus", "samples"],
        [
            [str(s.place or "-"), s.contestant, str(s.accepted), str(s.base), str(s.bonus), " ".join(s.samples)]
            for s in standings
        ],
        (0, 0, 1, 2, 3, 0),
    )
    return terminal_table(samples) + "\n" + terminal_table(ranking).rstrip()


def _speedup(row: Scored) -> str:
    s = row.speedup
    if math.isnan(s.value):
        return "-"
    return f"{s.value:.3g}x" + (f" [{s.low:.3g}, {s.high:.3g}]" if s.known else "")


def _why(row: Scored) -> str:
    return row.why + (
        f"; same case as {row.similar_to}: {row.similar}" if row.similar_to and row.similar != "similar" else ""
    )
