"""profkit mcp, profkit skill: for coding agents."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from profkit.cli import options as shared


@click.command("mcp")
@click.option(
    "--root",
    "roots",
    multiple=True,
    default=(Path("."),),
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder that paths may lie in; repeatable; relative paths start at the first. Default: here.",
)
@click.option("--seconds", default=600.0, show_default=True, type=shared.Amount(1), help="Limit of one measurement.")
def mcp_(roots: tuple[Path, ...], seconds: float) -> int:
    """Serve profile, explain, compare, lines and ceilings over stdin and stdout.

    \b
    profkit mcp --root ~/kernels

    Paths outside the roots are refused; only the client's requests run. Needs the extra mcp.
    """
    from profkit.bridges.mcp import server  # pandas

    server(roots, seconds).run()
    return 0


@click.command("skill")
@shared.lang("Language of the file.")
def skill_(lang: str) -> int:
    """Print SKILL.md: measure, read a finding, change one thing, gate, stop at the lower bound.

    \b
    profkit skill > skills/profkit/SKILL.md
    """
    name = "SKILL.md" if lang == "en" else f"SKILL.{lang}.md"
    click.echo((files("profkit.bridges") / name).read_text("utf-8").rstrip("\n"))
    return 0
