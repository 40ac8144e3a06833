"""profkit roofline: the kernels of runs under the ceilings of their device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from profkit.cli import options as shared
from profkit.errors import ProfkitError


@click.command("roofline")
@click.argument("runs", nargs=-1, required=True, type=shared.PATH, metavar="RUN...")
@shared.output("A .png, .svg or .pdf file.", Path("roofline.png"))
@click.option(
    "--level",
    "levels",
    default="dram",
    show_default=True,
    callback=lambda _context, _option, text: shared.words_of(text, ("dram", "l2", "l1"), "levels"),
    help="Memory levels, a point of every kernel each: dram,l2,l1.",
)
@click.option("--top", default=12, show_default=True, type=click.IntRange(1), help="How many kernels, by time.")
@click.option("--theme", type=click.Choice(["light", "dark"]), default="light", show_default=True)
@shared.force
def roofline_(runs: tuple[Path, ...], output: Path, force: bool, **options: Any) -> int:
    """Draw the kernels of RUN, or of several runs of one device, on one roofline.

    \b
    profkit roofline RUN -o roofline.svg --level dram,l2 --top 20
    profkit roofline BEFORE AFTER --theme dark
    """
    from profkit.report.figures import kernels_scene  # pandas and matplotlib stay out of start-up
    from profkit.study.study import open_study
    from roofline.figure.plot import draw, save

    shared.vacant(output, force)
    shared.ends(output, *shared.FIGURES)
    scene = kernels_scene([open_study(run) for run in runs], **options)
    if not any(point.placed or point.copies for point in scene.points):
        raise ProfkitError(
            "nothing to draw: these runs have no kernel with FLOP or bytes",
            fix="a timeline holds times alone; collect counters with `profkit profile --ncu`, or import an ncu export",
        )
    save(draw(scene), output)
    click.echo(output)
    return 0
