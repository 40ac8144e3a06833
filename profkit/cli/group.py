"""The verbs, imported on use, and the only place that turns exceptions into exit codes.

Exit codes: 0 success; 1 measured, result wrong or slower; 2 usage or bad input; 3 cannot profile here; 130 interrupted
(Ctrl-C); 143 terminated (SIGTERM, after the same clean-up); 70 a bug of profkit, with its traceback.
"""

from __future__ import annotations

import ast
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
from pathlib import Path

import click

from profkit._version import __version__
from profkit.cli import contests
from profkit.cli.terminal import settle
from profkit.errors import ProfkitError
from profkit.rundir import harmless
from profkit.rundir.files import unwritable

VERBS = {
    "profile": ("profile", "watch"),
    "reading": ("import", "roofline", "explain", "report"),
    "programs": ("ledger", "tasks", "verify"),
    "compare": ("compare", "gate"),
    "machine": ("ceilings", "timers", "doctor"),
    "runs": ("history", "site", "list"),
    "agents": ("mcp", "skill"),
    **{f"contests/{file}": verbs for file, verbs in contests.VERBS.items()},
}
"""File below profkit/cli -> its verbs; a verb's function ends with an underscore."""
_FILES = {verb: file for file, verbs in VERBS.items() for verb in verbs}


def _summaries(file: str) -> list[tuple[str, str]]:
    """(verb, first line of its help) of a file, read from its source: an import takes longer."""
    source = (Path(__file__).parent / f"{file}.py").read_text("utf-8")
    helps = {
        one.name: ast.get_docstring(one) or "" for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)
    }
    return [(verb, helps[f"{verb}_"].partition("\n")[0]) for verb in VERBS[file]]


class Verbs(click.Group):
    """A group that imports a verb's file only when that verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_FILES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _FILES:
            return None
        file = _FILES[cmd_name].replace("/", ".")
        command: click.Command = getattr(import_module(f"profkit.cli.{file}"), f"{cmd_name}_")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0], [*_FILES, "--version", "--help"], n=2)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise click.UsageError(f"no verb {args[0]!r}.{hint}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, of_contests in (("Verbs", False), ("Verbs of the contests", True)):
            with formatter.section(title):
                files = (file for file in VERBS if file.startswith("contests/") == of_contests)
                formatter.write_dl([row for file in files for row in _summaries(file)])


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
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        path = getattr(getattr(error, "ctx", None), "command_path", "profkit")
        named = next((word for word in arguments if word[:1] == "-" and Path(word).exists()), "")
        fix = f"write ./{named}, as a word with a dash in front is an option" if named else f"see {path} --help"
        complain(error.format_message(), fix, error.exit_code, for_program=_for_program(arguments))
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); silence the flush at exit as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ProfkitError as error:
        complain(str(error), error.fix, error.exit_code, for_program=_for_program(arguments))
        return error.exit_code
    except OSError as error:
        # No room on stdout, a working directory that is gone.
        with contextlib.suppress(OSError):
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
            fix = unwritable(error.filename or "", error).fix
            complain(what, fix, ProfkitError.exit_code, for_program=_for_program(arguments))
        return ProfkitError.exit_code
    return int(result) if isinstance(result, int) else 0


def complain(what: str, fix: str = "", exit_code: int = 1, *, for_program: bool = False) -> None:
    """Print an error to stderr; for a program also as a document on stdout."""
    click.echo(f"error: {harmless.lines(what)}", err=True)
    if fix:
        click.echo(f"fix: {harmless.lines(fix)}", err=True)
    if for_program:
        click.echo(import_module("profkit.report.dialects.agent").failure(what, fix, exit_code))


def _for_program(arguments: Sequence[str]) -> bool:
    """Whether stdout is for a program: --json or --for agent."""
    own = list(itertools.takewhile(lambda word: word != "--", arguments))
    return not {"--json", "--for=agent"}.isdisjoint(own) or ("--for", "agent") in itertools.pairwise(own)


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
