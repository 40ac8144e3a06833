"""profkit profile: measure one sample, every sample of a folder, or any command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from profkit.cli import options as shared
from profkit.cli.group import complain, failed_for
from profkit.cli.options import Runners, Sectioned, option
from profkit.cli.terminal import Answer, Progress, progress, show
from profkit.errors import CannotProfileError, ProfkitError, as_shells_do
from profkit.launch import warm
from profkit.launch.environment import environment, sharing
from profkit.record.request import Request, refuse
from profkit.targets.program import Program

if TYPE_CHECKING:
    from profkit.study.study import Study

OPTIONS = (
    *("only", "device", "hot", "range", "after", "steps", "kernel"),
    *("trials", "backward", "trust", "allow", "memory", "mode", "sanitize"),
    *("shapes", "budget", "processes", "timeout", "perturb"),
    *("ncu", "nsys", "events", "deep", "lines", "runs"),
)


class WithProgram(Sectioned):
    """Takes everything after -- as a command line of its own, options and all."""

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
@option("--dry-run", is_flag=True, help="Print the commands and the replay passes, and stop.")
@shared.json_
@shared.reader
@shared.server
@shared.quiet
def profile_(
    sample: Path | None,
    dry_run: bool,
    as_json: bool,
    reader: str | None,
    jobs: int | None,
    dask: str | None,
    **options: Any,
) -> int:
    """Measure SAMPLE, a folder with a reference and candidates, every sample of a folder, or a command after --.

    \b
    profkit profile S1/ICVXKH --ncu
    profkit profile S1/ICVXKH --device cpu
    profkit profile S1 --jobs auto
    profkit profile -- python train.py --steps 3
    profkit profile --hot 5 -- python train.py

    Exit code 1 when a candidate is wrong, crashes or hangs; that of a command where it fails; 3 when this machine
    cannot do what was asked.
    """
    shared.one_form(as_json, reader)
    ctx = click.get_current_context()
    quiet, server = options.pop("quiet"), options.pop("server")
    if sample is not None and sample.is_dir() and not (dry_run or jobs is not None or dask):
        # torch is imported beside what is imported here.
        ctx.with_resource(warm.runners(environment({} if options["trust"] else sharing()), lasting=server))
    from profkit.record.profile import plan  # pandas

    # A program's own output is data too, unless ours is to be read by a program.
    streams = (2 if as_json or reader else 1, 2)
    targets = _targets(sample, ctx.meta.get("program"), streams)
    request = _request(ctx, sample, options)
    if dry_run:
        for target in targets:
            with _sample_of(target, request.device) as found:
                click.echo("\n".join(plan(found, request)))
        return 0
    form = reader or ("json" if as_json else "")
    runners = Runners.of(jobs, dask, quiet)
    if runners is not None:
        return _campaign(sample, targets, request, runners, form)
    if len(targets) == 1:
        return _one(targets[0], request, form, quiet=quiet)
    return _many(targets, request, form, quiet=quiet)


def _request(ctx: click.Context, sample: Path | None, options: dict[str, Any]) -> Request:
    """The request of the options. Raises ProfkitError for one that cannot apply."""
    given = shared.written(ctx)
    limit = options["limit"]
    if sample is None:
        options["limit"] = None
    elif "limit" in given:
        given["timeout"] = given.pop("limit")
    request = shared.request_of(otherwise="auto", **options)
    refuse("folder" if sample is not None else "program", request, {n: o for n, o in given.items() if n in FIELDS})
    if sample is None:
        return replace(request, limit=limit)
    return request


FIELDS = {one.name for one in fields(Request)}


def _targets(sample: Path | None, argv: Sequence[str] | None, streams: tuple[int, int]) -> Sequence[Path | Program]:
    """What the command line names. Raises click.UsageError."""
    if argv is not None:
        if sample is not None:
            raise click.UsageError(f"name either the sample {sample} or a command after --, not both")
        return [Program.of(argv, streams)]
    if sample is None:
        raise click.UsageError(
            "name a sample's folder, or a command after --: profkit profile --ncu -- python train.py"
        )
    from profkit.contests import formats  # pandas

    targets = formats.targets(sample)
    if not targets:
        raise click.UsageError(f"{sample}: no samples here; a sample is a folder with a reference and a candidate")
    return targets


@contextmanager
def _sample_of(target: Path | Program, device: str) -> Iterator[Path | Program]:
    """A task in another format as the sample that would be measured; else as it is."""
    from profkit.contests import formats  # pandas

    if isinstance(target, Program):
        yield target
        return
    with formats.opened(target, device) as folder:
        yield folder


def _one(target: Path | Program, request: Request, form: str, *, quiet: bool) -> int:
    """`form`: json, agent, or "" for people."""
    from profkit.api import profile
    from profkit.report.derived import write
    from profkit.report.writers import terminal

    # Nothing is drawn where a program writes.
    with progress(quiet, plain=isinstance(target, Program)) as now:
        answer = Answer(now, people=not form)
        run = profile(target, progress=now, answer=answer, request=request)
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
        click.echo(json.dumps(document(run), ensure_ascii=False, allow_nan=False))
    else:
        click.echo(terminal.next_steps(run, files), err=True)
    if run.manifest.program and exit_code(run):
        click.echo(_ending(run), err=True)
    return exit_code(run)


def _many(targets: Sequence[Path | Program], request: Request, form: str, *, quiet: bool) -> int:
    """Every sample in turn; one that cannot be measured is named and the rest go on."""
    runs, codes = [], [0]
    with warm.runners(), progress(quiet) as now:
        for number, target in enumerate(targets, 1):
            now(f"[{number}/{len(targets)}] {target}")
            run, code = _of_many(target, request, now, form)
            runs += [run] if run is not None else []
            codes.append(code)
    return _said(runs, codes, form)


def _of_many(target: Path | Program, request: Request, now: Progress, form: str) -> tuple[Study | None, int]:
    """The run of one target and its exit code; no run where it cannot be measured."""
    from profkit.api import profile
    from profkit.report.derived import write

    try:
        run = profile(target, progress=now.within, request=request)
        write(run)
    except ProfkitError as error:
        now.fails(f"error: {target}: {error}" + (f"\nfix: {error.fix}" if error.fix else ""))
        failed_for(form, f"{target}: {error}", error.fix, error.exit_code)
        return None, error.exit_code
    if form == "agent":
        click.echo(run.report(form))
    return run, exit_code(run)


def _campaign(
    sample: Path | None,
    targets: Sequence[Path | Program],
    request: Request,
    runners: Runners,
    form: str,
) -> int:
    """Every sample as an item of a campaign."""
    from profkit.api import open_run
    from profkit.campaign import work_item
    from profkit.campaign.campaign import Campaign

    folders = [one for one in targets if isinstance(one, Path)]
    if len(folders) < len(targets):
        raise click.UsageError("--jobs and --dask are for samples, not for a command after --")
    items = [work_item.of_folder(folder, request) for folder in folders]
    campaign = Campaign(f"profkit profile {sample}", items, request, runners.jobs, runners.dask)
    ran, codes = [], [0]
    with closing(campaign.run(lambda text: click.echo(text, err=True), quiet=runners.quiet)) as done:
        for one in done:
            if one.error:
                complain(f"{one.item.label}: {one.error}", one.fix, "" if one.run is not None else form, one.code)
                codes.append(one.code)
            if one.run is not None:
                ran.append(open_run(one.run))
                if form == "agent":
                    click.echo(ran[-1].report(form))
                codes.append(exit_code(ran[-1]))
    return _said(sorted(ran, key=lambda run: run.manifest.sample.id), codes, form)


def _said(runs: Sequence[Study], codes: Sequence[int], form: str) -> int:
    """Print many runs; the exit code of all, `codes` with a 0 among them."""
    from profkit.report.writers import terminal

    if form == "json":
        click.echo(json.dumps([document(run) for run in runs], ensure_ascii=False, allow_nan=False))
    elif not form:
        show(terminal.overview(runs))
    # What cannot be measured here is skipped where anything else was.
    return max(code for code in codes if code != CannotProfileError.exit_code or not runs)


def document(run: Study) -> dict[str, Any]:
    """run.json and metrics.json in one document; `exit_code`: the program's own or null."""
    from profkit.report import derived  # pandas

    return {
        "run": msgspec.to_builtins(run.manifest),
        "path": str(run.path),
        "exit_code": run.manifest.exit_code,
        "metrics": derived.document(run),
    }


def exit_code(run: Study) -> int:
    """0 when a program ended well, or all implementations are right and sound; else its own code, or 1."""
    if run.manifest.program:
        code = run.manifest.exit_code or 0
        return as_shells_do(code) if code else int(run.manifest.status != "done")
    ran = [impl for impl in run.manifest.impls if impl.status != "skipped"]
    good = all(impl.ok and not impl.unsound for impl in ran) and any(impl.role == "candidate" for impl in ran)
    return int(not good)


def _ending(run: Study) -> str:
    manifest = run.manifest
    step = next((one for one in manifest.commands if one.exit_code), None)
    log = f"; see {run.logs / step.log}" if step is not None else ""
    code = f"ended with exit code {manifest.exit_code}"
    how = "did not end and was killed" if manifest.status == "hung" else code
    return f"the program {how}: what was captured before may be incomplete{log}"
