"""profkit bench: a contest sample's own lines, completed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from profkit.cli import options as shared
from profkit.cli.terminal.progress import progress
from profkit.rundir.files import write_atomic


@click.command("bench", cls=shared.Sectioned, short_help="run_code.py's lines, plus throughput and bandwidth.")
@click.argument("folder", type=shared.PATH)
@shared.of_request("device", "events", "budget", "processes", "trials", "trust", "allow", "memory", "runs")
@shared.option(
    "--limit",
    section=shared.TIMING,
    type=shared.Amount(above=True),
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="Time run_code.py may take.",
)
@shared.json_
@shared.quiet
def command(folder: Path, limit: float, as_json: bool, quiet: bool, **options: Any) -> int:
    """Profile FOLDER, run its run_code.py, and print that script's lines plus 吞吐量 and 内存带宽.

    \b
    profkit bench S1/ICVXKH --device cpu

    Exit code 1 when the script or a candidate fails.
    """
    from profkit.contests.gpucodeforces import bench  # pandas

    with progress(quiet) as now:
        request = shared.request_of(otherwise="auto", **options)
        document = bench.bench(folder, request, limit=limit, progress=now)
    text = json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False)
    write_atomic(Path(document["run"]) / "bench.json", text.encode())
    if as_json:
        click.echo(text)
    else:
        click.echo(document["run_code"]["stdout"], nl=False)
        for line in bench.lines(document):
            click.echo(line)
        for note in document["notes"]:
            click.echo(f"note: {note}", err=True)
    ran = document["candidates"]
    good = bool(ran) and all(row["status"] == "ok" for row in ran) and document["run_code"]["exit_code"] == 0
    return 0 if good else 1
