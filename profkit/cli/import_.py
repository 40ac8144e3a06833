"""profkit import: anybody's exports into a run directory."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli import options as shared
from profkit.cli.group import complain
from profkit.cli.terminal import progress, show


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=shared.PATH, metavar="FILE...")
@shared.output("The run directory to make.", metavar="RUN")
@click.option("--partial", is_flag=True, help="Read a file that breaks off up to its last whole row, with a caveat.")
@click.option("--device", default="", metavar="NAME", help="The GPU, where the exports do not name it.")
@click.option("--scrub", is_flag=True, help="Copy nsys's sqlite exports without environment, host names and paths.")
@shared.json_
@shared.quiet
def import_(
    files: tuple[Path, ...],
    output: Path | None,
    partial: bool,
    device: str,
    scrub: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Read exports of ncu, nsys, nvprof, trtexec, rocprof, torch.profiler into a run.

    \b
    profkit import their.csv more.csv report.ncu-rep trace.sqlite -o RUN
    profkit import profile.json layers.json times.json

    Formats are found by content; the files are copied as they are, unless --scrub asks otherwise. A file that cannot be read is named, the
    others are imported, and the exit code is 2.
    """
    from profkit.record.importing import import_files
    from profkit.report.derived import metrics, write
    from profkit.report.writers import terminal
    from profkit.study.study import Study

    with progress(quiet) as now:
        found = import_files(files, output, partial=partial, device=device, scrub=scrub, progress=now)
        now("analysing")
        study = Study(found.run, found.frames)
        # Of times alone a picture tells no more than the report's table, and takes longer than reading 100 MB.
        written = write(study, pictures=study.manifest.counters.state == "collected")
    for error in found.failures:
        complain(str(error), error.fix)
    if as_json:
        click.echo(metrics(study), nl=False)
    else:
        show(terminal.summary(study))
        click.echo(terminal.next_steps(study, written), err=True)
    return 2 if found.failures else 0
