"""profkit bench: a contest sample's own lines, completed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from profkit.cli import options as shared
from profkit.cli.progress import progress
from profkit.record.request import Request
from profkit.rundir.files import write_atomic


@click.command("bench", short_help="run_code.py's lines, plus throughput and bandwidth.")
@click.argument("folder", type=click.Path(path_type=Path))
@shared.device
@shared.events
@shared.budget
@shared.processes
@shared.trials
@click.option(
    "--limit",
    type=shared.Amount(above=True),
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="Time run_code.py may take.",
)
@shared.fenced(sanitize=False)
@shared.runs
@shared.as_json
@shared.quiet
def command(
    folder: Path,
    device: str,
    counters: str | None,
    budget: float,
    trials: int,
    limit: float,
    runs: Path,
    as_json: bool,
    quiet: bool,
    **fences: Any,
) -> int:
    """Profile FOLDER, run its run_code.py, and print that script's lines plus 吞吐量 and 内存带宽.

    \b
    profkit bench S1/ICVXKH --device cpu

    Exit code 1 when the script or a candidate fails.
    """
    from profkit.contests.gpucodeforces import bench  # pandas

    request = Request(counters=counters or "auto", device=device, budget=budget, trials=trials, runs=runs, **fences)
    with progress(quiet) as now:
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
