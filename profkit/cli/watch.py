"""profkit watch: measure a sample again whenever one of its files is saved."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profkit.cli import options as shared
from profkit.cli.group import complain
from profkit.cli.options import Sectioned
from profkit.cli.terminal import Answer, Progress, progress
from profkit.errors import ProfkitError
from profkit.launch import warm
from profkit.launch.environment import environment, sharing
from profkit.record.request import Request

if TYPE_CHECKING:
    from profkit.study.study import Study

OPTIONS = ("only", "device", "trials", "trust", "allow", "mode", "budget", "processes", "timeout", "runs")
_TICK = 0.1
"""Seconds between two looks at the files; they are measured when they stay as they are for one of them."""
_PASSED_OVER = ("__pycache__", "node_modules")
Files = Mapping[Path, tuple[int, int]]


@click.command("watch", cls=Sectioned)
@click.argument("folder", type=shared.PATH)
@shared.of_request(*OPTIONS)
@shared.server
@shared.quiet
def watch_(folder: Path, server: bool, quiet: bool, **options: Any) -> int:
    """Measure the sample in FOLDER, and again at each save, until Ctrl-C (exit code 130).

    Each time it prints the first line, the change since the last save ("1.76x -> 1.92x") and what became worse. After a
    save that does not load it goes on watching. Counters are left to `profkit profile`.

    \b
    profkit watch S1/ICVXKH --device cpu
    """
    request = shared.request_of(None, **options)
    begun = environment({} if request.trust else sharing())
    with warm.runners(begun, lasting=server), progress(quiet) as now:
        return _Watch(folder, request, now).run()


class _Watch:
    """The measurements of one folder; `_last`: the latest that gave an answer."""

    def __init__(self, folder: Path, request: Request, now: Progress) -> None:
        self._folder, self._request, self._now = folder, request, now
        self._seen: Files = {}
        self._last: Study | None = None

    def run(self) -> int:
        """Never returns but by an exception."""
        try:
            while True:
                self._measure()
                self._wait()
        except KeyboardInterrupt:
            self._leave()
            raise

    def _measure(self) -> None:
        from profkit.record.profile import profile  # pandas
        from profkit.report.derived import write

        files = self._files()
        self._seen, answer = files, Answer(self._now, people=True, before=self._last)
        try:
            with self._until_saved():
                answer(profile(self._folder, progress=self._step, answer=answer, request=self._request))
        except ProfkitError as error:
            with self._now.aside():
                complain(str(error), error.fix)
        finally:
            if answer.study is not None:
                with suppress(ProfkitError):
                    write(answer.study, pictures=False)
            # A change is told against what was right.
            if answer.study is not None and any(one.right for one in answer.study.verdicts.values()):
                self._last = answer.study

    def _step(self, text: str) -> None:
        """Progress on one line, but for a build, which may take a minute."""
        (self._now if text.startswith("building") else self._now.within)(text)

    @contextmanager
    def _until_saved(self) -> Iterator[None]:
        """Interrupt the block, as Ctrl-C does, once a file is saved."""
        saved, over, lock = threading.Event(), threading.Event(), threading.Lock()

        def look() -> None:
            while not over.wait(_TICK):
                with lock:
                    if not over.is_set() and self._files() != self._seen:
                        saved.set()
                        _thread.interrupt_main()
                        return

        threading.Thread(target=look, daemon=True).start()
        try:
            try:
                yield
            finally:
                with lock:
                    over.set()
        except KeyboardInterrupt:
            if not saved.is_set():
                raise

    def _wait(self) -> None:
        self._now.within(f"waiting for a save in {self._folder}")
        before = self._seen
        # An editor may write a file in several steps.
        while (files := self._files()) == self._seen or files != before:
            before = files
            time.sleep(_TICK)
        self._now(f"saved: {', '.join(sorted({path.name for path, _ in files.items() ^ self._seen.items()}))}")

    def _files(self) -> Files:
        """Time and size of what lies in the folder; not what is hidden, made of it, or a run."""
        runs, found = self._request.runs.resolve(), {}
        place = self._folder if self._folder.is_dir() else self._folder.parent
        for path in sorted(place.rglob("*")):
            parts = path.relative_to(place).parts
            if any(part.startswith(".") or part in _PASSED_OVER for part in parts) or runs in path.resolve().parents:
                continue
            try:
                known = path.stat()
            except OSError:
                continue
            if path.is_file():
                found[path] = (known.st_mtime_ns, known.st_size)
        return found

    def _leave(self) -> None:
        """Write the report of the last measurement."""
        if self._last is None:
            return
        from profkit.api import open_run
        from profkit.report.derived import write
        from profkit.report.writers import terminal

        run = open_run(self._last.path)
        with self._now.aside():
            click.echo(terminal.next_steps(run, write(run)), err=True)
