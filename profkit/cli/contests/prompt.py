"""profkit prompt: prompt.txt of a sample, with what was measured."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli import options as shared
from profkit.contests.prompt import compose
from profkit.rundir.files import write_atomic
from profkit.targets import resolve


@click.command("prompt", short_help="Write a sample's prompt, with profiling evidence.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--run",
    "run_path",
    type=click.Path(path_type=Path),
    help="Evidence from this run; default: the newest of the sample.",
)
@click.option("--no-evidence", is_flag=True, help="Leave measurements out.")
@shared.runs
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: FOLDER/prompt.txt; - is stdout.")
@shared.force
def command(
    folder: Path, run_path: Path | None, no_evidence: bool, runs: Path, output: Path | None, force: bool
) -> int:
    """Write the prompt of FOLDER from its reference: example, rules, measured evidence, the architecture.

    \b
    profkit prompt S1/ICVXKH -o -
    """
    from profkit.study.study import open_study  # pandas

    sample = resolve(folder)
    run = None
    if run_path is not None:
        run = open_study(run_path)
    elif not no_evidence and (runs / sample.id).is_dir() and any((runs / sample.id).rglob("run.json")):
        run = open_study(runs / sample.id)
    text = compose(sample, run)
    target = output or folder / "prompt.txt"
    if str(target) == "-":
        click.echo(text, nl=False)
        return 0
    shared.vacant(target, force)
    write_atomic(target, text.encode())
    click.echo(f"{target}" + (f" (evidence: {run.path})" if run is not None else ""), err=True)
    return 0
