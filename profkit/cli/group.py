"""The verbs, imported on use, and the only place that turns exceptions into exit codes.

Exit codes: 0 success; 1 measured, result wrong or slower; 2 usage or bad input; 3 cannot profile here; 130 interrupted
(Ctrl-C); 143 terminated (SIGTERM, after the same clean-up); 70 a bug of profkit, with its traceback.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module

import click

from profkit._version import __version__
from profkit.cli import contests
from profkit.cli.terminal import settle
from profkit.errors import ProfkitError
from profkit.rundir import harmless

VERBS = {
    "profile": "Measure a sample: correctness, speed-up, distance to the lower bound.",
    "watch": "Measure a sample at each save; print its verdict and the change.",
    "import": "Read exports of ncu, nsys, nvprof, trtexec, rocprof or torch.profiler into a run directory.",
    "roofline": "Draw the kernels of one run or several under the ceilings of their device.",
    "explain": "Explain why a kernel is slow, the possible gain, and the next step.",
    "ledger": "List a program's operations: time, lower bound, possible gain per step.",
    "tasks": "Write samples of a trace's hottest operations at the recorded shapes.",
    "verify": "Run a program with and without a change; compare predicted and measured gain.",
    "compare": "Compare two or more runs: optimisation ladder, regression gate.",
    "gate": "Compare runs before and after a pull request: comment, picture, exit code.",
    "report": "Make a run's report, plot and tables again; needs no GPU.",
    "ceilings": "Measure this device's ceilings and keep them for later runs.",
    "timers": "Time one kernel with several timing methods, and explain the differences.",
    "history": "Find changes of a time over runs, and what else changed.",
    "site": "Write a static site of many runs: leaderboard, roofline, pages.",
    "list": "List samples of a folder, and runs with their verdicts.",
    "mcp": "Serve tools over the Model Context Protocol.",
    "skill": "Print instructions for coding agents.",
    "doctor": "Check this machine, and list a fix for each problem.",
}
ALL = {**VERBS, **contests.VERBS}
_TOGETHER = {
    "profile": ("watch",),
    "compare": ("gate",),
    "programs": ("ledger", "tasks", "verify"),
    "reading": ("import", "explain", "roofline", "report"),
    "runs": ("history", "list", "site"),
    "machine": ("doctor", "ceilings", "timers"),
    "agents": ("mcp", "skill"),
}
_FILES = {verb: file for file, verbs in _TOGETHER.items() for verb in verbs}
_FILES |= {verb: f"contests.{file}" for verb, file in contests.FILES.items()}
"""Verb -> its file below profkit/cli if the name differs; a verb's function name ends with an underscore."""


class Verbs(click.Group):
    """A group that imports a verb's file only when that verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(ALL)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ALL:
            return None
        command: click.Command = getattr(import_module(f"profkit.cli.{_FILES.get(cmd_name, cmd_name)}"), f"{cmd_name}_")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0], [*ALL, "--version", "--help"], n=2)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise click.UsageError(f"no verb {args[0]!r}.{hint}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in (("Verbs", VERBS), ("Verbs of the contests", contests.VERBS)):
            with formatter.section(title):
                formatter.write_dl(list(verbs.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="profkit %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Profile a kernel: is it right, how fast, how far from the roofline, why.

    \b
    profkit profile S1/ICVXKH          the best this machine can do: ncu, else CUDA events, else the CPU
    profkit report profkit-runs        the newest run again, from its files
    """
    settle(context)


def invoke(arguments: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    with harmless.screens():
        return _invoke(arguments)


def _invoke(arguments: Sequence[str]) -> int:
    try:
        with _tidy_when_terminated(), warnings.catch_warnings():
            warnings.showwarning = lambda said, *_: click.echo(f"note: {harmless.lines(str(said))}", err=True)
            result = cli.main(list(arguments), prog_name="profkit", standalone_mode=False)
    except Terminated as error:
        return _interrupted(error, arguments)
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        return _interrupted(error.__context__ or error, arguments)
    except click.ClickException as error:
        path = getattr(getattr(error, "ctx", None), "command_path", "profkit")
        complain(error.format_message(), f"see {path} --help", _reader(arguments), error.exit_code)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); silence the flush at exit as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ProfkitError as error:
        complain(str(error), error.fix, _reader(arguments), error.exit_code)
        return error.exit_code
    except OSError as error:
        # No room on stdout, a working directory that is gone.
        with contextlib.suppress(OSError):
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
            complain(what, "is there room, may it be written, is the working directory still there?")
        return ProfkitError.exit_code
    return int(result) if isinstance(result, int) else 0


def complain(what: str, fix: str = "", reader: str = "", exit_code: int = 1) -> None:
    """Print an error to stderr; with --for, also in that dialect to stdout."""
    click.echo(f"error: {harmless.lines(what)}", err=True)
    if fix:
        click.echo(f"fix: {harmless.lines(fix)}", err=True)
    dialect = import_module("profkit.report.dialects").DIALECTS.get(reader) if reader else None
    if dialect is not None and (said := dialect.failed(what, fix, exit_code)):
        click.echo(said)


def _reader(arguments: Sequence[str]) -> str:
    """Value of --for; "" without."""
    own = list(itertools.takewhile(lambda word: word != "--", arguments))
    asked = [word.removeprefix("--for=") for word in own if word.startswith("--for=")]
    return ["", *asked, *(after for word, after in itertools.pairwise(own) if word == "--for")][-1]


class Terminated(KeyboardInterrupt):
    """SIGTERM: the same clean-up as Ctrl-C, another exit code."""


def _terminate(number: int, frame: object) -> None:
    raise Terminated


@contextlib.contextmanager
def _tidy_when_terminated() -> Iterator[None]:
    """Raise Terminated on SIGTERM inside the block, on the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupted(error: BaseException, arguments: Sequence[str]) -> int:
    """Say what is kept; the error's first argument is the run directory, if there is one."""
    own = {word.partition("=")[0] for word in itertools.takewhile(lambda word: word != "--", arguments)}
    kept = (
        "; the same command goes on where it stopped"
        if own & {"--jobs", "--dask"}
        else "".join(f"; what was measured is in {place}" for place in error.args[:1])
    )
    click.echo(f"interrupted{kept}", err=True)
    return 143 if isinstance(error, Terminated) else 130
