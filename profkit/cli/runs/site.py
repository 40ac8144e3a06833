"""profkit site: a static site of many runs."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli import options as shared
from profkit.rundir import harmless


@click.command("site", short_help="A static site of many runs.")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("site"), show_default=True)
@shared.runs
@click.option(
    "--pages", default=20, show_default=True, type=click.IntRange(0), help="How many runs' pages to make this time."
)
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Of the runs' pages.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout: what was made.")
def command(folder: Path, output: Path, runs: Path, pages: int, lang: str, as_json: bool) -> int:
    """Leaderboard, fast_p, rooflines and the runs' pages of DIR: a folder of runs, or a season (a folder of samples).

    \b
    profkit site profkit-runs -o site/
    profkit site S1 --runs profkit-runs -o site/      ranked by the contest's rules as well

    Open site/index.html from disk; it asks nothing of a network. The pages of the best runs are made first; the same
    command again brings the site up to date and makes further ones.
    """
    import msgspec

    from profkit.campaign.site import build
    from profkit.errors import ProfkitError
    from profkit.targets import find_samples

    season = folder if find_samples(folder) else None
    source = folder if season is None else runs
    if not source.is_dir():
        raise ProfkitError(f"{source}: no such folder of runs", fix="name it with --runs DIR")
    made = build(source, output, season=season, pages=pages, lang=lang)
    for path, why in made.damaged:
        click.echo(harmless.line(f"damaged: {source / path}: {why}"), err=True)
    if as_json:
        click.echo(msgspec.json.encode(made, enc_hook=str).decode())
    else:
        click.echo(f"{made.index}: {made.runs} runs, {made.pages} with a page, {made.fresh} of them new")
    return 0
