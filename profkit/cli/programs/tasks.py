"""profkit tasks: samples of a program's hottest operations, at the shapes and shares that it calls them with."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.contests.sources import write_new


@click.command("tasks", short_help="Samples of a trace's hottest operations.")
@click.argument("source", type=click.Path(path_type=Path, exists=True), metavar="RUN_OR_TRACE")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="DIR", help="A folder each, below it."
)
@click.option(
    "--most", type=click.IntRange(1), default=8, show_default=True, metavar="N", help="The N hottest operations."
)
def command(source: Path, output: Path, most: int) -> int:
    """A sample folder of each hot operation: the call as reference, all its shapes with their shares, a candidate that works.

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
