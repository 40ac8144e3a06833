"""profkit import: anybody's exports into a run directory."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

PATIENCE = 2.0
"""Seconds of reading after which a terminal is told that it goes on."""


@click.command("import", short_help="Read somebody's exports.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="RUN", help="The run directory to make."
)
@click.option(
    "--partial", is_flag=True, help="Read a file that breaks off up to its last whole row, with a doubt."
)
@click.option("--device", default="", metavar="NAME", help="The GPU, where the exports do not name it.")
@click.option("--json", "as_json", is_flag=True, help="The metrics as one JSON document on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(
    files: tuple[Path, ...], output: Path | None, partial: bool, device: str, as_json: bool, quiet: bool
) -> int:
    """Read FILES of ncu (CSV, .ncu-rep), nsys (sqlite, CSV), nvprof or trtexec (JSON) into a run directory.

    \b
    profkit import their.csv more.csv report.ncu-rep trace.sqlite -o RUN
    profkit import profile.json layers.json times.json

    Formats are found by content; the files are copied as they are. A file that cannot be read is named, the
    others are imported, and the exit code is 2.
    """
    from profkit.derive import derive, document
    from profkit.importing import import_files
    from profkit.report import terminal

    with _progress(quiet) as say:
        found = import_files(files, output, partial=partial, device=device, progress=say)
        say("analysing")
        written = derive(found.run)
    for error in found.failures:
        click.echo(f"error: {error}", err=True)
        if getattr(error, "fix", ""):
            click.echo(f"fix: {error.fix}", err=True)  # type: ignore[attr-defined]
    if as_json:
        click.echo(document(found.run, "json"), nl=False)
    else:
        click.echo(terminal.summary(found.run))
        click.echo(terminal.next_steps(found.run, written), err=True)
    return 2 if found.failures else 0


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """One line a step; a step of more than PATIENCE seconds shows on a terminal that it is alive."""
    current = [""]
    done = threading.Event()

    def say(text: str) -> None:
        current[0] = text
        if not quiet:
            click.echo(f"  {text}", err=True)

    if quiet or not sys.stderr.isatty():
        yield say
        return
    watcher = threading.Thread(target=_pulse, args=(current, done), daemon=True)
    watcher.start()
    try:
        yield say
    finally:
        done.set()
        watcher.join()


def _pulse(current: list[str], done: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    last, began = "", time.monotonic()
    while not done.wait(0.1):
        if current[0] != last:
            last, began = current[0], time.monotonic()
        if last and time.monotonic() - began > PATIENCE:
            columns = (TextColumn("  {task.description}"), BarColumn(), TimeElapsedColumn())
            with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
                bar.add_task(last, total=None)
                while current[0] == last and not done.wait(0.1):
                    continue
