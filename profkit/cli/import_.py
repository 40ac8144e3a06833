"""profkit import: anybody's exports into a run directory."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from profkit.cli.screen import show
from profkit.rundir import harmless

PATIENCE = 2.0
"""Seconds of reading after which a terminal is told that it goes on."""


@click.command("import", short_help="Read somebody's exports.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="RUN", help="The run directory to make.")
@click.option("--partial", is_flag=True, help="Read a file that breaks off up to its last whole row, with a doubt.")
@click.option("--device", default="", metavar="NAME", help="The GPU, where the exports do not name it.")
@click.option("--scrub", is_flag=True, help="Copy nsys's sqlite exports without environment, host names and paths.")
@click.option("--json", "as_json", is_flag=True, help="The metrics as one JSON document on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(
    files: tuple[Path, ...],
    output: Path | None,
    partial: bool,
    device: str,
    scrub: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Read FILES of ncu (CSV, .ncu-rep), nsys (sqlite, CSV), nvprof or trtexec (JSON, log) into a run directory.

    \b
    profkit import their.csv more.csv report.ncu-rep trace.sqlite -o RUN
    profkit import profile.json layers.json times.json

    Formats are found by content; the files are copied as they are, unless --scrub asks otherwise. A file that cannot be read is named, the
    others are imported, and the exit code is 2.
    """
    from profkit.record.importing import import_files
    from profkit.report.derived import write
    from profkit.report.writers import json, terminal
    from profkit.study.study import Study

    with _progress(quiet) as now:
        found = import_files(
            files, output, partial=partial, device=device, scrub=scrub, progress=now.say, moved=now.moved
        )
        now.say("analysing")
        study = Study(found.run, found.frames)
        written = write(study)
    for error in found.failures:
        click.echo(f"error: {harmless.lines(str(error))}", err=True)
        if error.fix:
            click.echo(f"fix: {harmless.lines(error.fix)}", err=True)
    if as_json:
        click.echo(json.metrics(study), nl=False)
    else:
        show(terminal.summary(study))
        click.echo(terminal.next_steps(study, written), err=True)
    return 2 if found.failures else 0


class Progress:
    """What is being done: a line a step on stderr, and how far its bytes are, for whoever draws it."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self.step = ""
        self.done = 0
        self.total = 0

    def say(self, text: str) -> None:
        self.step, self.done, self.total = text, 0, 0
        if not self._quiet:
            click.echo(f"  {harmless.line(text)}", err=True)

    def moved(self, done: int, total: int) -> None:
        self.done, self.total = done, total


@contextmanager
def _progress(quiet: bool) -> Iterator[Progress]:
    """One line a step; a step of more than PATIENCE seconds shows on a terminal how far it is."""
    now, over = Progress(quiet), threading.Event()
    if quiet or not sys.stderr.isatty():
        yield now
        return
    watcher = threading.Thread(target=_watch, args=(now, over), daemon=True)
    watcher.start()
    try:
        yield now
    finally:
        over.set()
        watcher.join()


def _watch(now: Progress, over: threading.Event) -> None:
    last, began = "", time.monotonic()
    while not over.wait(0.1):
        if now.step != last:
            last, began = now.step, time.monotonic()
        if last and time.monotonic() - began > PATIENCE:
            _bar(now, last, over)


def _bar(now: Progress, step: str, over: threading.Event) -> None:
    """A bar until the step is over: of bytes, or one that only moves where nobody counts them."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("  {task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(step, total=None)
        while now.step == step and not over.wait(0.1):
            bar.update(task, completed=now.done, total=now.total or None)
