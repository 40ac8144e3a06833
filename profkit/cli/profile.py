"""profkit profile: measure one sample, every sample of a folder, or any command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from profkit.cli import options as shared
from profkit.cli.campaign import begin
from profkit.cli.group import complain, failed_for
from profkit.cli.options import NSIGHT, RIGHT, TIMING, WHAT, WHERE, Sectioned, option
from profkit.cli.progress import Progress, progress
from profkit.cli.screen import show
from profkit.errors import ProfkitError
from profkit.launch import warm
from profkit.record.request import Request, refuse
from profkit.targets.program import Program

if TYPE_CHECKING:
    from profkit.study.study import Study

COUNTED = "Counting a command (as ncu's options)"


class WithProgram(Sectioned):
    """Takes everything after -- as a command line of its own, options and all."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["program"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


@click.command(
    "profile",
    cls=WithProgram,
    short_help="Measure a sample or any command.",
    options_metavar="[OPTIONS]",
    epilog="After --: any command with its arguments. An option that cannot apply is refused.",
)
@click.argument("sample", type=shared.PATH, required=False)
@option("--candidate", "only", section=WHAT, multiple=True, metavar="NAME", help="Only this candidate; repeatable.")
@shared.device
@option("--hot", section=WHAT, type=click.IntRange(1), metavar="N", help="Commands: rank first, count the N hottest.")
@option("--range", "range", section=WHAT, default="", metavar="NAME", help="Commands: only inside this range.")
@option("--after", section=WHAT, default="", metavar="N|Ns", help="Commands: pass over N steps, or N seconds.")
@option("--steps", section=WHAT, default=None, type=click.IntRange(1), metavar="N", help="Commands: then N steps.")
@shared.trials
@option(
    "--shapes",
    section=TIMING,
    type=click.Choice(["first", "all"]),
    default="first",
    show_default=True,
    help="Time get_inputs() alone, or all of get_more_inputs() too.",
)
@option("--backward", section=RIGHT, is_flag=True, help="Compare the gradients too, and time them apart.")
@option("--seed", section=RIGHT, type=int, help="Fix the inputs; by default fresh in every run.")
@shared.fenced()
@shared.budget
@shared.processes
@option(
    "--target",
    section=TIMING,
    type=shared.Amount(),
    metavar="FLOAT",
    default=0.005,
    show_default=True,
    help="Stop when medians are known this well (relative).",
)
@option(
    "--l2",
    section=TIMING,
    type=click.Choice(["cold", "warm"]),
    default="cold",
    show_default=True,
    help="Cache state of timed calls.",
)
@option("--energy", section=TIMING, is_flag=True, help="Energy of a call as well, by the GPU's counter; 1.2 s each.")
@shared.wait_quiet
@shared.timeout
@option(
    "--time-limit",
    "limit",
    section=TIMING,
    type=shared.Amount(above=True),
    metavar="SECONDS",
    help="Commands: kill one that runs longer.",
)
@shared.ncu
@option("--nsys", section=NSIGHT, is_flag=True, help="Record a timeline with Nsight Systems, or what CUPTI sees.")
@shared.events
@option("--require-counters", section=NSIGHT, is_flag=True, help="Exit 3 when counters cannot be had.")
@option("--deep", section=NSIGHT, is_flag=True, help="The counters that `profkit explain` asks for as well.")
@option("--lines", section=NSIGHT, is_flag=True, help="--deep, and the source lines that the kernels wait for.")
@option("--perturb", section=TIMING, is_flag=True, help="Infer what binds it from time alone, under other conditions.")
@option("--set", "ncu_set", section=NSIGHT, default="", metavar="NAME", help="This ncu section set as well (full).")
@option("--keep-report", section=NSIGHT, is_flag=True, help="Keep the tools' own reports (.ncu-rep, .nsys-rep).")
@option("-k", "--kernel-name", "kernel", section=COUNTED, default="", metavar="REGEX", help="Only these kernels.")
@option("--nvtx-include", "include", section=COUNTED, multiple=True, metavar="EXPR", help="profkit@mlp/ is annotate's.")
@option("--launch-skip", "skip", section=COUNTED, type=click.IntRange(0), metavar="N", help="Leave out the first N.")
@option("--launch-count", "count", section=COUNTED, type=click.IntRange(1), metavar="N", help="Count N launches.")
@option(
    "--kill/--no-kill",
    section=COUNTED,
    default=None,
    help="End the command once its launches are counted (--hot does).",
)
@shared.runs
@shared.campaign
@option("--dry-run", section=WHERE, is_flag=True, help="Print the commands and the replay passes, and stop.")
@shared.as_json
@shared.reader
@option("-v", "--verbose", section=WHERE, is_flag=True, help="Print the exact commands and the seconds of each.")
@shared.quiet
def command(
    sample: Path | None,
    dry_run: bool,
    as_json: bool,
    reader: str | None,
    verbose: bool,
    quiet: bool,
    counters: str | None,
    hot: int | None,
    steps: int | None,
    jobs: int | None,
    dask: str | None,
    **options: Any,
) -> int:
    """Measure SAMPLE, a folder with a reference and candidates, every sample of a folder, or a command after --.

    \b
    profkit profile S1/ICVXKH --ncu
    profkit profile S1/ICVXKH --device cpu
    profkit profile S1 --jobs auto
    profkit profile --ncu -- python train.py --steps 3
    profkit profile --hot 5 -- python train.py

    Exit code 1 when a candidate is wrong, crashes or hangs, or the command fails; 3 when this machine cannot do what
    was asked.
    """
    from profkit.record.profile import plan

    if as_json and reader:
        raise click.UsageError("--json holds everything, --for agent what matters: one of them")
    ctx = click.get_current_context()
    targets = _targets(sample, ctx.meta.get("program"))
    request = Request(counters=counters or "auto", hot=hot or 0, steps=steps or 0, **options)
    given = {name: text for name, text in shared.written(ctx).items() if hasattr(request, name)}
    refuse("folder" if sample is not None else "program", request, given)
    if dry_run:
        for target in targets:
            with _sample_of(target, request.device) as found:
                click.echo("\n".join(plan(found, request)))
        return 0
    form = reader or ("json" if as_json else "")
    if jobs is not None or dask:
        return _campaign(sample, targets, request, shared.Runners(jobs or 0, dask or "", quiet), form)
    if len(targets) == 1:
        return _one(targets[0], request, form, verbose=verbose, quiet=quiet)
    return _many(targets, request, form, verbose=verbose, quiet=quiet)


def _targets(sample: Path | None, argv: Sequence[str] | None) -> Sequence[Path | Program]:
    """What the command line names. Raises click.UsageError."""
    if argv is not None:
        if sample is not None:
            raise click.UsageError(f"name either the sample {sample} or a command after --, not both")
        return [Program.of(argv)]
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
    """A task in somebody else's format as the sample that would be measured; everything else as it is."""
    from profkit.contests import formats  # pandas

    if isinstance(target, Program):
        yield target
        return
    with formats.opened(target, device) as folder:
        yield folder


def _one(target: Path | Program, request: Request, form: str, *, verbose: bool, quiet: bool) -> int:
    """`form`: json, agent, or "" for people."""
    from profkit.api import profile
    from profkit.report.derived import write
    from profkit.report.writers import terminal

    with progress(quiet) as now:
        run = profile(target, progress=now, request=request)
        now("writing the report")
        files = write(run)
    if verbose:
        for step in run.manifest.commands:
            click.echo(f"  $ {shlex.join(step.argv)}    # {step.wall:.2f} s", err=True)
    if form == "agent":
        click.echo(run.report(form))
    elif form:
        click.echo(json.dumps(document(run), ensure_ascii=False, allow_nan=False))
    else:
        show(terminal.summary(run))
        click.echo(terminal.next_steps(run, files), err=True)
    if run.manifest.program and exit_code(run):
        click.echo(_ending(run), err=True)
    return exit_code(run)


def _many(targets: Sequence[Path | Program], request: Request, form: str, *, verbose: bool, quiet: bool) -> int:
    """Every sample in turn. One that cannot be measured is named and the rest go on. For an agent a line a sample."""
    runs, codes = [], [0]
    with warm.runners(), progress(quiet) as now:
        for number, target in enumerate(targets, 1):
            now(f"[{number}/{len(targets)}] {target}")
            run, code = _of_many(target, request, now, form, verbose=verbose)
            runs += [run] if run is not None else []
            codes.append(code)
    return _said(runs, codes, form)


def _of_many(
    target: Path | Program, request: Request, now: Progress, form: str, *, verbose: bool
) -> tuple[Study | None, int]:
    """The run of one target and its exit code; no run where it cannot be measured."""
    from profkit.api import profile
    from profkit.report.derived import write

    try:
        run = profile(target, progress=now if verbose else now.within, request=request)
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
    runners: shared.Runners,
    form: str,
) -> int:
    """Every sample as a piece of a campaign."""
    begin(runners.dask)
    from profkit.api import open_run
    from profkit.campaign import piece
    from profkit.campaign.campaign import Campaign

    folders = [one for one in targets if isinstance(one, Path)]
    if len(folders) < len(targets):
        raise click.UsageError("--jobs and --dask are for samples, not for a command after --")
    pieces = [piece.of_folder(folder, request) for folder in folders]
    campaign = Campaign(f"profkit profile {sample}", pieces, request, runners.jobs, runners.dask)
    ran, codes = [], [0]
    with closing(campaign.run(lambda text: click.echo(text, err=True), quiet=runners.quiet)) as done:
        for one in done:
            if one.error:
                complain(f"{one.piece.label}: {one.error}", one.fix, "" if one.run is not None else form, one.code)
                codes.append(one.code)
            if one.run is not None:
                ran.append(open_run(one.run))
                if form == "agent":
                    click.echo(ran[-1].report(form))
                codes.append(exit_code(ran[-1]))
    return _said(sorted(ran, key=lambda run: run.manifest.sample.id), codes, form)


def _said(runs: Sequence[Study], codes: Sequence[int], form: str) -> int:
    """Print many runs; the exit code of all."""
    from profkit.report.writers import terminal

    if form == "json":
        click.echo(json.dumps([document(run) for run in runs], ensure_ascii=False, allow_nan=False))
    elif not form:
        show(terminal.overview(runs))
    return max(codes)


def document(run: Study) -> dict[str, Any]:
    """run.json and metrics.json in one document; `exit_code` is the program's own, null where none ran."""
    from profkit.report.writers import json as json_writer  # pandas

    return {
        "run": msgspec.to_builtins(run.manifest),
        "path": str(run.path),
        "exit_code": run.manifest.exit_code,
        "metrics": json_writer.document(run),
    }


def exit_code(run: Study) -> int:
    """0 when a program ended well, or when every implementation that ran is right and no sanitizer found an error in
    its kernels; else 1.
    """
    if run.manifest.program:
        return int(run.manifest.status != "done")
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
