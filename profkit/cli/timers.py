"""profkit timers: one kernel by every clock of the field, and why they differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from profkit.cli import options as shared
from profkit.errors import ProfkitError

_DRAWN, _TOLD = (".png", ".svg", ".pdf"), (".md", ".txt", ".json")


@click.command("timers", short_help="One kernel by every clock.")
@click.argument("target", metavar="FILE.py:FUNCTION|FOLDER")
@click.option(
    "--part", default="", metavar="NAME", help="Of a sample: reference, or a candidate (the first that runs)."
)
@click.option(
    "-o",
    "--output",
    type=shared.PATH,
    default=Path("-"),
    help="A .png, .svg or .pdf figure; .md, .txt, .json.  [default: the table on stdout]",
)
@shared.json_
@shared.quiet
@shared.force
def command(target: str, part: str, output: Path, as_json: bool, quiet: bool, force: bool) -> int:
    """Time one call by CUPTI, profkit, Triton, KernelBench, torch.utils.benchmark, CUDA events, nvbench and ncu.

    \b
    profkit timers S1/ICVXKH                       its first candidate that runs here
    profkit timers S1/ICVXKH --part reference -o timers.png
    profkit timers kernels.py:softmax --json       softmax(*get_inputs())

    Each clock's difference from CUPTI is taken apart by switching one cause at a time. The code runs in one process
    without isolation, as with --trust. A CPU has two of the clocks, the others need an NVIDIA GPU.
    """
    from profkit.record import timers  # pandas stays out of start-up

    form = output.suffix.lower()
    if str(output) != "-":
        shared.vacant(output, force)
        if form not in (*_DRAWN, *_TOLD):
            raise click.UsageError(f"{output}: name a file that ends in {', '.join((*_DRAWN, *_TOLD))}")
    say: Any = (lambda _: None) if quiet else lambda what: click.echo(f"  {what}", err=True)
    document = timers.measure([timers.named(target, part)], say)
    written = json.dumps(document, ensure_ascii=False)
    if form in _DRAWN:
        from profkit.report.timers import figure
        from roofline.figure.plot import save

        save(figure(document), output)
    if as_json or form == ".json":
        text = written
    else:
        from profkit.report.timers import text as told

        text = told(document, markdown=form == ".md")
    if form in _TOLD:
        output.write_text(f"{text}\n", "utf-8")
    click.echo(written if as_json else output if str(output) != "-" else text)
    if document["kernels"][0]["error"]:
        raise ProfkitError(document["kernels"][0]["error"], fix="does the code run by itself?")
    return 0
