"""profkit report: the derived files of a run, made again."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report", short_help="Make a run's report again.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the report here (.md or .json); - is stdout.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing output.")
@click.option("--json", "as_json", is_flag=True, help="The metrics as one JSON document on stdout.")
def command(run: Path, output: Path | None, force: bool, as_json: bool) -> int:
    """Make metrics.json, kernels.csv, roofline.png, roofline.svg and report.md of RUN again.

    RUN is a run directory, or a folder above: the newest run below it is taken. Needs no GPU.
    """
    from profkit.derive import derive, document
    from profkit.report import terminal
    from profkit.run import open_run

    opened = open_run(run)
    if as_json or output is not None:
        form = "json" if as_json or (output and output.suffix == ".json") else "md"
        _write(document(opened, form), output or Path("-"), force)
        return 0
    files = derive(opened)
    click.echo(terminal.summary(opened))
    click.echo(terminal.next_steps(opened, files), err=True)
    return 0


def _write(text: str, output: Path, force: bool) -> None:
    from profkit.run import write_atomic

    if str(output) == "-":
        click.echo(text)
        return
    if output.exists() and not force:
        raise click.UsageError(f"{output} exists, will not overwrite it without --force")
    write_atomic(output, text.encode())
