"""profkit gate: runs before and after a change, for a pull request."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli.compare import fraction
from profkit.report.writers.junit import document
from profkit.rundir.files import write_atomic

FOLDER = click.Path(path_type=Path)


@click.command("gate", short_help="Runs before and after a change, for CI.")
@click.argument("before", type=FOLDER)
@click.argument("after", type=FOLDER)
@click.option(
    "--fail-on-regression",
    "limit",
    callback=fraction,
    default="5%",
    show_default=True,
    metavar="SHARE",
    help="Slower than this, for sure, fails.",
)
@click.option("-o", "--output", type=FOLDER, help="Write comment.md, junit.xml and roofline.png here.")
@click.option("--junit", type=FOLDER, metavar="FILE", help="Write JUnit's XML here.")
@click.option("--allow-missing", is_flag=True, help="What is gone from AFTER passes.")
@click.option("--strict", is_flag=True, help="What cannot be told fails: inconclusive, or measured otherwise.")
@click.option("--picture", default="", metavar="ADDRESS", help="Where the comment finds roofline.png.")
def command(
    before: Path, after: Path, limit: float, output: Path | None, junit: Path | None, picture: str, **how: bool
) -> int:
    """Compare the newest run of every sample below AFTER with the one below BEFORE; the comment goes to stdout.

    \b
    profkit gate runs-of-main runs-of-this-branch --fail-on-regression 5% -o out

    Exit code 1 when something is wrong, gone, or slower for sure; 2 when there is nothing to compare. Needs no GPU.
    """
    from profkit.campaign.gate import cases, comment, judge
    from profkit.report.figures import gate_scene, png

    found, studies = judge(before, after, limit, **how)
    text = comment(found, studies, limit, picture)
    suite = document("profkit", cases(found))
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        made = {"comment.md": text.encode(), "roofline.png": png(gate_scene(studies)), "junit.xml": suite}
        for name, data in made.items():
            write_atomic(output / name, data)
    if junit is not None:
        write_atomic(junit, suite)
    click.echo(text, nl=False)
    return int(any(one.fails for one in found))
