"""profkit new: a sample folder that already runs."""

from __future__ import annotations

import re
from pathlib import Path

import click

from profkit.contests.gpucodeforces.form import ID
from profkit.contests.gpucodeforces.scaffold import Wish, create


@click.command("new", short_help="Start a sample that already runs.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--op", default="", metavar="TEXT", help="The operation: softmax, 'add + relu', 'silu(x) * y'.")
@click.option(
    "--from",
    "reference",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Start from this reference instead; --op is then only the title.",
)
@click.option("--shape", default="4096,8192", show_default=True, metavar="N,M", help="Shape of each input.")
@click.option("--contestant", default="", metavar="NAME", help="Whose submission it is; goes into readme.md.")
def command(path: Path, op: str, reference: Path | None, shape: str, contestant: str) -> int:
    """Make PATH: reference, candidates, run_code.py, prompt.txt, readme.md. A contest's is called by its issue, S1/IABCDE.

    \b
    profkit new softmax --op softmax
    profkit new S1/IABCDE --op "silu(x) * y" --shape 64,1024
    profkit new mine --from my_model.py --op "my model"
    """
    if not op and reference is None:
        raise click.UsageError("say what it computes: --op TEXT, or --from FILE")
    sizes = tuple(int(size) for size in re.findall(r"\d+", shape))
    if not sizes or 0 in sizes:
        raise click.UsageError(f"--shape {shape!r}: sizes above 0, with commas between")
    for file in create(Wish(path, op, sizes, reference, contestant)):
        click.echo(str(file))
    contest = f"profkit check {path}; profkit bench {path}; " if ID.fullmatch(path.name) else ""
    click.echo(f"next: {contest}profkit profile {path}", err=True)
    return 0
