"""profkit profile and watch: measure a sample, a folder of samples, or a command."""

from __future__ import annotations

import _thread
import importlib
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profkit.cli import options as shared
from profkit.cli.group import complain
from profkit.cli.options import Runners, Sectioned
from profkit.cli.terminal import Answer, Progress, progress, show
from profkit.contests import formats
from profkit.errors import CannotProfileError, ProfkitError, as_shells_do
from profkit.launch import gpu, warm
from profkit.launch.environment import environment
from profkit.record.profile import profile
from profkit.record.request import Request, refuse
from profkit.report.writers import terminal
from profkit.targets.program import Program

if TYPE_CHECKING:
    from profkit.api import Run
    from profkit.study.study import Study

OPTIONS = (
    *("only", "device", "hot", "range", "after", "steps", "kernel"),
    *("trials", "backward", "trust", "allow", "memory", "mode", "sanitize"),
    *("shapes", "budget", "processes", "timeout", "perturb"),
    *("ncu", "nsys", "events", "deep", "lines", "runs"),
)
WATCHED = ("only", "device", "trials", "trust", "allow", "mode", "budget", "processes", "timeout", "runs")
_TICK = 0.1
"""Polling interval in seconds; a measurement starts after one interval without changes."""
_PASSED_OVER = ("__pycache__", "node_modules")
Files = Mapping[Path, tuple[int, int]]


class WithProgram(Sectioned):
    """Takes everything after -- as a separate command line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["program"] = args[at + 1 :]
            args = args[:at]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "program" in ctx.meta or "unexpected extra" not in error.message:
                raise
            raise click.UsageError(
                f"{error.message} A command goes after --: profkit profile -- python train.py"
            ) from error


@click.command(
    "profile",
    cls=WithProgram,
    options_metavar="[OPTIONS]",
    epilog="After --: any command with its arguments. An option that cannot apply is refused.",
)
@click.argument("sample", type=shared.PATH, required=False)
@shared.of_request(*OPTIONS)
@shared.campaign
@shared.json_
@shared.reader
@shared.server
@shared.quiet
def profile_(
    sample: Path | None,
    as_json: bool,
    reader: str | None,
    jobs: int | None,
    dask: str | None,
    **options: Any,
) -> int:
    """Measure a sample folder, every sample of a folder, or a command after --.

    \b
    profkit profile S1/ICVXKH --ncu
    profkit profile S1/ICVXKH --device cpu
    profkit profile S1 --jobs auto
    profkit profile -- python train.py --steps 3
    profkit profile --hot 5 -- python train.py

    Exit code 1 if a candidate is wrong, crashes or hangs; 3 if this machine cannot measure it; the command's own
    if the command fails.
    """
    shared.one_form(as_json, reader)
    ctx = click.get_current_context()
    quiet, server = options.pop("quiet"), options.pop("server")
    if sample is not None and sample.is_dir() and jobs is None and not dask:
        # torch is imported beside what is imported here.
        ctx.with_resource(warm.runners(environment(), lasting=server))
    # A program's own output is data too, unless ours is to be read by a program.
    streams = (2 if as_json or reader else 1, 2)
    targets = _targets(sample, ctx.meta.get("program"), streams)
    request = _request(ctx, sample, options)
    form = reader or ("json" if as_json else "")
    runners = Runners.of(jobs, dask, quiet)
    if runners is not None:
        return _all(_campaign(sample, targets, request, runners), form)
    if len(targets) == 1:
        return _one(targets[0], request, form, quiet)
    return _all(_in_turn(targets, request, quiet), form)


def _request(ctx: click.Context, sample: Path | None, options: dict[str, Any]) -> Request:
    """Build the Request from the options. Raises ProfkitError if one cannot apply."""
    given = shared.written(ctx)
    limit = options["limit"]
    if sample is None:
        options["limit"] = None
    elif "limit" in given:
        given["timeout"] = given.pop("limit")
    request, known = shared.request_of(otherwise="auto", **options), {one.name for one in fields(Request)}
    refuse("folder" if sample is not None else "program", request, {n: o for n, o in given.items() if n in known})
    return replace(request, limit=limit) if sample is None else request


def _targets(sample: Path | None, argv: Sequence[str] | None, streams: tuple[int, int]) -> Sequence[Path | Program]:
    """Targets on the command line. Raises click.UsageError."""
    if argv is not None:
        if sample is not None:
            raise click.UsageError(f"name either the sample {sample} or a command after --, not both")
        return [Program.of(argv, streams)]
    if sample is None:
        raise click.UsageError(
            "name a sample's folder, or a command after --: profkit profile --ncu -- python train.py"
        )
    targets = formats.targets(sample)
    if not targets:
        raise click.UsageError(f"{sample}: no samples here; a sample is a folder with a reference and a candidate")
    return targets


def _one(target: Path | Program, request: Request, form: str, quiet: bool) -> int:
    """Profile one target and print its report. form: json, agent, or "" for text."""
    # While the judge works; beside a program or a CPU's measurement it would disturb.
    beside = isinstance(target, Path) and request.device != "cpu" and gpu.gpu_present()
    readers = threading.Thread(target=_import_readers, daemon=True)
    # Nothing is drawn where a program writes.
    with progress(quiet, plain=isinstance(target, Program)) as now:
        answer = Answer(now, people=not form)

        def told(step: str) -> None:
            now(step)
            if beside and readers.ident is None:
                readers.start()

        study = formats.measure(target, request, told, answer)
        from profkit.api import Run
        from profkit.report.derived import write

        run = Run.of(study)
        answer(run.run)
        if not form:
            # Drawing takes longer than reading.
            with now.aside():
                show(terminal.summary(run, answer.told))
        now("writing the report")
        files = write(run)
    if form == "agent":
        click.echo(run.report(form))
    elif form:
        shared.print_json(document(run))
    else:
        click.echo(terminal.next_steps(run, files), err=True)
    if run.manifest.program and exit_code(run):
        step = next((one for one in run.manifest.commands if one.exit_code), None)
        log = f"; see {run.logs / step.log}" if step is not None else ""
        code = f"ended with exit code {run.manifest.exit_code}"
        how = "did not end and was killed" if run.manifest.status == "hung" else code
        click.echo(f"the program {how}: what was captured before may be incomplete{log}", err=True)
    return exit_code(run)


_Done = tuple[str, "Run | None", str, str, int]
"""Name and run of a sample; the error, its fix, and the exit code."""


def _import_readers() -> None:
    """Import what reads and draws a run: pandas and matplotlib, a second of a start."""
    for module in ("profkit.api", "profkit.report.derived", "matplotlib.figure"):
        importlib.import_module(module)


def _all(each: Generator[_Done, None, None], form: str) -> int:
    """Print each sample when done, then all of them; report failures and continue."""
    runs, codes = list["Run"](), [0]
    with closing(each) as done:
        for name, run, what, fix, code in done:
            if what:
                complain(
                    what if what.partition(":")[0].endswith(name) else f"{name}: {what}",
                    fix,
                    code,
                    for_program=run is None and form == "agent",
                )
                codes.append(code)
            if run is not None:
                runs.append(run)
                codes.append(exit_code(run))
                if form == "agent":
                    click.echo(run.report(form))
    runs.sort(key=lambda run: run.manifest.sample.id)
    if form == "json":
        shared.print_json([document(run) for run in runs])
    elif not form:
        show(terminal.overview(runs))
    # What cannot be measured here is skipped where anything else was.
    return max(code for code in codes if code != CannotProfileError.exit_code or not runs)


def _in_turn(targets: Sequence[Path | Program], request: Request, quiet: bool) -> Generator[_Done, None, None]:
    from profkit.api import profile
    from profkit.report.derived import write

    with warm.runners(), progress(quiet) as now:
        for number, target in enumerate(targets, 1):
            now(f"[{number}/{len(targets)}] {target}")
            done: _Done
            try:
                run = profile(target, progress=now.within, request=request)
                write(run)
                done = str(target), run, "", "", 0
            except ProfkitError as error:
                done = str(target), None, str(error), error.fix, error.exit_code
            with now.aside():
                yield done


def _campaign(
    sample: Path | None, targets: Sequence[Path | Program], request: Request, runners: Runners
) -> Generator[_Done, None, None]:
    from profkit.api import open_run
    from profkit.campaign.stages import of_folder

    folders = [one for one in targets if isinstance(one, Path)]
    if len(folders) < len(targets):
        raise click.UsageError("--jobs and --dask are for samples, not for a command after --")
    items = [of_folder(folder, request) for folder in folders]
    for item, one in runners.run(f"profkit profile {sample}", items, request):
        yield item.label, open_run(one.run) if one.run else None, one.error, one.fix, one.code


def document(run: Study) -> dict[str, Any]:
    """run.json and metrics.json in one document; `exit_code`: the program's or null."""
    from profkit.report import derived  # pandas

    return {
        "run": run.manifest,
        "path": str(run.path),
        "exit_code": run.manifest.exit_code,
        "metrics": derived.document(run),
    }


def exit_code(run: Study) -> int:
    """Exit code: a program's own; of a sample 0 if all implementations are correct and sound."""
    if run.manifest.program:
        code = run.manifest.exit_code or 0
        return as_shells_do(code) if code else int(run.manifest.status != "done")
    ran = [impl for impl in run.manifest.impls if impl.status != "skipped"]
    good = all(impl.ok and not impl.unsound for impl in ran) and any(impl.role == "candidate" for impl in ran)
    return int(not good)


@click.command("watch", cls=Sectioned)
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@shared.of_request(*WATCHED)
@shared.server
@shared.quiet
def watch_(folder: Path, server: bool, quiet: bool, **options: Any) -> int:
    """Measure the sample in FOLDER, and again at each save, until Ctrl-C (exit code 130).

    It prints the first line, the change since the last save ("1.76x -> 1.92x") and what became worse. A save that
    fails to load does not end it. It collects no counters; `profkit profile` does.

    \b
    profkit watch S1/ICVXKH --device cpu
    """
    request = shared.request_of(None, **options)
    with warm.runners(environment(), lasting=server), progress(quiet) as now:
        return _Watch(folder, request, now).run()


class _Watch:
    """Measurements of one folder; `_last`: the latest with an answer."""

    def __init__(self, folder: Path, request: Request, now: Progress) -> None:
        self._folder, self._request, self._now = folder, request, now
        self._seen: Files = {}
        self._last: Study | None = None

    def run(self) -> int:
        """Measure at each save until an exception."""
        try:
            while True:
                self._measure()
                self._wait()
        except KeyboardInterrupt:
            self._leave()
            raise

    def _measure(self) -> None:
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
        """Progress on one line; a build, which may take a minute, gets its own."""
        (self._now if text.startswith("building") else self._now.within)(text)

    @contextmanager
    def _until_saved(self) -> Iterator[None]:
        """Interrupt the block, like Ctrl-C, when a file is saved."""
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
        """Modification time and size of the folder's files, without hidden, generated and run files."""
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

        run = open_run(self._last.path)
        with self._now.aside():
            click.echo(terminal.next_steps(run, write(run)), err=True)
