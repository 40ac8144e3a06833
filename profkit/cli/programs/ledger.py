"""profkit ledger: what each operation of a program takes, needs at least, and can win."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli import options as shared
from profkit.cli.terminal.screen import show


@click.command("ledger", short_help="What a program's operations take and can win.")
@click.argument("source", type=click.Path(path_type=Path, exists=True), metavar="RUN_OR_TRACE")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="A page (.html) or data (.json).")
@shared.json_
@shared.force
def command(source: Path, output: Path | None, as_json: bool, force: bool) -> int:
    """A row for each operation at each of its shapes: its time, its lower bound, what to do, and what that wins of a step.

    \b
    profkit ledger trace.json.gz               a trace of torch.profiler, with record_shapes=True
    profkit ledger profkit-runs/train          a run of a program: profkit profile -- python train.py
    profkit ledger trace.json.gz -o ledger.html

    Lower bounds are of that call's own bytes and FLOP, under this device's measured ceilings where they are kept
    (profkit ceilings), else the datasheet's. Wins are replayed: where the host is late, a faster kernel wins nothing.
    """
    from profkit.report.traces import ledger as report
    from profkit.study.ledger import open_ledger

    if output is not None:
        if output.suffix not in (".html", ".json"):
            raise click.BadParameter(f"{output}: a page ends with .html, data with .json", param_hint="-o")
        shared.vacant(output, force)
    found = open_ledger(source)
    if output is not None:
        output.write_text(found.data if output.suffix == ".json" else report.page(found, source), encoding="utf-8")
    if as_json:
        click.echo(found.data)
    elif output is None:
        show(report.text(found))
    return 0
