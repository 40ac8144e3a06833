"""profkit skill: the loop for programs that write kernels, as a skill file."""

from __future__ import annotations

from importlib.resources import files

import click

from profkit.report.messages import LANGUAGES


@click.command("skill", short_help="How to work with profkit.")
@click.option("--lang", type=click.Choice(LANGUAGES), default="en", show_default=True)
def command(lang: str) -> int:
    """Print SKILL.md: measure, read the first finding, change one thing, compare with the gate, stop at the lower bound.

    \b
    profkit skill > skills/profkit/SKILL.md
    """
    name = "SKILL.md" if lang == "en" else f"SKILL.{lang}.md"
    click.echo((files("profkit.bridges") / name).read_text("utf-8").rstrip("\n"))
    return 0
