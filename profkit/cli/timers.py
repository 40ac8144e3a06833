"""profkit timers: one kernel by every clock of the field, and why they differ."""

from __future__ import annotations

import json
from pathlib import Path

import click

from profkit.cli import options as shared
from profkit.errors import ProfkitError

_DRAWN, _TOLD = (".png", ".svg", ".pdf"), (".md", ".json")


@click.command("timers", short_help="One kernel by every clock.")
@click.argument("target", metavar="FILE.py:FUNCTION|FOLDER")
@click.option(
    "--part", default="", metavar="NAME", help="Of a sample: reference, or a candidate (the first that runs)."
)
@click.option(
    "-o", "--output", type=shared.PATH, help="A figure (.png, .svg, .pdf), the table (.md) or everything (.json)."
)
@shared.json_
@shared.force
def command(target: str, part: str, output: Path | None, as_json: bool, force: bool) -> int:
    """Time one call by CUPTI, profkit, Triton, KernelBench, torch.utils.benchmark, CUDA events, nvbench and ncu.

    \b
    profkit timers S1/ICVXKH                       its first candidate that runs here
    profkit timers S1/ICVXKH --part reference -o timers.png
    profkit timers kernels.py:softmax --json       softmax(*get_inputs())

    Each clock's difference from CUPTI is taken apart by switching one cause at a time. The code runs in one process
    without isolation, as with --trust. A CPU has two of the clocks, the others need an NVIDIA GPU.
    """
    from profkit.record import timers  # pandas and matplotlib stay out of start-up
    from profkit.report.timers import figure, text
    from roofline.figure.plot import save

    if output is not None:
        shared.vacant(output, force)
        if output.suffix.lower() not in (*_DRAWN, *_TOLD):
            raise click.UsageError(f"{output}: name a file that ends in {', '.join((*_DRAWN, *_TOLD))}")
    document = timers.measure([target], part, lambda what: click.echo(f"  {what}", err=True))
    written = json.dumps(document, ensure_ascii=False)
    if output is not None and output.suffix.lower() in _DRAWN:
        save(figure(document), output)
    elif output is not None:
        output.write_text(
            (written if output.suffix.lower() == ".json" else text(document, markdown=True)) + "\n", "utf-8"
        )
    click.echo(written if as_json else output or text(document))
    if document["kernels"][0]["error"]:
        raise ProfkitError(document["kernels"][0]["error"], fix="does the code run by itself?")
    return 0
