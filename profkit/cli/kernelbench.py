"""profkit kernelbench: KernelBench's files, evaluated and analysed; its wrapper and KernelBook as well."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profkit.cli.campaign import begin
from profkit.cli.group import complain
from profkit.cli.kernelbench_data import book_, wrapper_
from profkit.cli.kernelbench_models import models_
from profkit.cli.options import Runners, campaign, fenced, measuring, request_of
from profkit.cli.progress import progress
from profkit.contests.kernelbench import files, official
from profkit.contests.kernelbench.files import Generated, Problem
from profkit.errors import ProfkitError
from profkit.rundir.files import write_atomic
from profkit.targets.backends import BACKENDS

if TYPE_CHECKING:
    from profkit.contests.kernelbench.evaluation import Runner
    from profkit.contests.kernelbench.fastp import Rated
    from profkit.record.request import Request

_PATH = click.Path(path_type=Path)


@click.group("kernelbench", short_help="KernelBench: baseline, eval, analyze, models; its wrapper; KernelBook.")
def command() -> None:
    """Read and write KernelBench's files.

    \b
    profkit kernelbench baseline CHECKOUT --level 1 -o baseline_time_torch.json
    profkit kernelbench eval CHECKOUT runs/mine --level 1
    profkit kernelbench analyze runs/mine --baseline baseline_time_torch.json --level 1
    profkit kernelbench models config.toml
    """


def _ids(text: str) -> list[int]:
    """`1,3,5-8` as a list."""
    found: list[int] = []
    for part in filter(None, text.replace(" ", "").split(",")):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise click.UsageError(f"{text!r}: ids are numbers, as in 1,3,5-8")
        found += range(int(first), int(last or first) + 1)
    return found


def _chosen(checkout: Path, level: int, ids: str) -> list[Problem]:
    found, wanted = files.problems(checkout, level), _ids(ids)
    strange = sorted(set(wanted) - {p.id for p in found})
    if strange:
        raise ProfkitError(f"level {level} has no problem {strange[0]}", fix="mend --problem")
    return [p for p in found if not wanted or p.id in wanted]


@command.command("eval")
@click.argument("checkout", type=_PATH)
@click.argument("run_dir", type=_PATH)
@click.option("--level", type=int, required=True)
@click.option("--problem", "ids", default="", metavar="1,3,5-8", help="Only these problems.")
@click.option("--sample", "samples", default="", metavar="0,1", help="Only these samples.")
@click.option(
    "--backend",
    multiple=True,
    type=click.Choice(BACKENDS),
    help="Only candidates written in it; may be repeated.",
)
@click.option("--k", "ks", default="1", show_default=True, metavar="1,5", help="pass@k to write.")
@click.option("--again", is_flag=True, help="Evaluate what is in eval_results.json once more.")
@fenced()
@measuring
@campaign
def eval_(
    checkout: Path,
    run_dir: Path,
    level: int,
    ids: str,
    samples: str,
    backend: tuple[str, ...],
    ks: str,
    again: bool,
    quiet: bool,
    jobs: int | None,
    dask: str | None,
    **options: Any,
) -> int:
    """Evaluate the candidates of RUN_DIR against the problems of CHECKOUT; writes eval_results.json there.

    A further level of the same RUN_DIR goes into level_2_eval_results.json, and so on. Exit code 1 when a candidate is
    wrong.
    """
    if jobs is not None or dask:
        begin(dask or "")
    from profkit.contests.kernelbench.evaluation import evaluate  # pandas, numpy
    from profkit.contests.kernelbench.fastp import pass_at_k

    runner = None
    failed: list[str] = []
    if jobs is not None or dask:
        runner = _campaign(
            f"profkit kernelbench eval {checkout} {run_dir} --level {level}",
            Runners(jobs or 0, dask or "", quiet),
            failed,
        )
    # A campaign draws its own table.
    with progress(quiet or runner is not None) as now:
        results = evaluate(
            _chosen(checkout, level, ids),
            run_dir,
            level,
            request_of(**options),
            samples=_ids(samples),
            backend=backend,
            again=again,
            progress=now,
            runner=runner,
        )
    files.write_json(files.results_file(run_dir, level, files.PASSES), pass_at_k(results, _ids(ks) or [1]))
    rows = [row for many in results.values() for row in many]
    for pid in sorted(results, key=int):
        for row in results[pid]:
            click.echo(_eval_line(pid, row))
    click.echo(f"{files.results_file(run_dir, level)}: {len(rows)} samples", err=True)
    return 0 if all(row["correctness"] and not _unsound(row) for row in rows) and not failed else 1


def _campaign(name: str, runners: Runners, failed: list[str]) -> Runner:
    """A runner of evaluation's; what could not be measured is said, and goes into `failed`."""
    from profkit.campaign.campaign import Campaign
    from profkit.campaign.piece import of_pair
    from profkit.contests.kernelbench.evaluation import Ran, name_of
    from profkit.study.study import open_study

    def run(todo: Sequence[tuple[Generated, Problem]], request: Request) -> Iterator[Ran]:
        pieces = {g.path.name: of_pair(name_of(g), problem.path, g.path, request) for g, problem in todo}
        whole = Campaign(name, list(pieces.values()), request, runners.jobs, runners.dask)
        with closing(whole.run(lambda text: click.echo(text, err=True), quiet=runners.quiet)) as done:
            for one in done:
                if one.error:
                    complain(f"{one.piece.label}: {one.error}", one.fix)
                if one.run is None:
                    failed.append(one.piece.label)
                    continue
                generated = next(g for g, _ in todo if g.path.name == one.piece.label)
                yield Ran(generated, open_study(one.run))

    return run


def _unsound(row: dict[str, Any]) -> list[str]:
    """What compute-sanitizer found in the candidate's kernels."""
    return (row["metadata"].get("profkit") or {}).get("unsound") or []


def _eval_line(pid: str, row: dict[str, Any]) -> str:
    own = row["metadata"].get("profkit") or {}
    words = f"problem {pid} sample {row['sample_id']}: compiled={row['compiled']} correct={row['correctness']}"
    if own.get("speedup") and own.get("speedup_low"):
        words += f" {row['runtime']:g} ms, {own['line']}"
    elif own.get("status") not in (None, "ok"):
        words += f" {own['status']}"
    error = row["metadata"].get("compilation_error") or row["metadata"].get("error")
    return f"{words}: {error}" if error else words


@command.command("baseline")
@click.argument("checkout", type=_PATH)
@click.option("--level", type=int, required=True)
@click.option("--problem", "ids", default="", metavar="1,3,5-8", help="Only these problems.")
@click.option("-o", "--output", type=_PATH, default=Path("baseline_time_torch.json"), show_default=True)
@click.option("--compiled", type=_PATH, metavar="FILE", help="Also time torch.compile, into this file.")
@measuring
def baseline_(
    checkout: Path, level: int, ids: str, output: Path, compiled: Path | None, quiet: bool, **options: Any
) -> int:
    """Time the references of CHECKOUT; writes an official baseline file. What is in it already stays."""
    from profkit.contests.kernelbench.evaluation import baseline  # pandas

    with progress(quiet) as now:
        chosen = _chosen(checkout, level, ids)
        done = baseline(chosen, output, request_of(**options), compiled=compiled, progress=now)
    count = len(done.get(f"level{level}", {}))
    click.echo(f"{output}: {count} problems of level {level}")
    return 0 if count else 1


@command.command("analyze")
@click.argument("run_dir", type=_PATH)
@click.option("--baseline", "baseline_file", type=_PATH, required=True)
@click.option("--level", type=int, required=True)
@click.option(
    "--problems", type=_PATH, metavar="CHECKOUT", help="The level's problems; default: those of the baseline."
)
@click.option("--hardware", default="", help="Name for the document; default: the baseline's folder.")
@click.option("-o", "--output", type=_PATH, help="Write the official document here.")
@click.option("--json", "as_json", is_flag=True, help="The official document and profkit's on stdout.")
def analyze_(
    run_dir: Path,
    baseline_file: Path,
    level: int,
    problems: Path | None,
    hardware: str,
    output: Path | None,
    as_json: bool,
) -> int:
    """The official analysis of RUN_DIR/eval_results.json, to the last digit; then what noise leaves of it.

    Exit code 1 when the baseline disagrees with the reference times that the rows were measured beside.
    """
    from profkit.contests.kernelbench import baseline_check, fastp  # numpy

    results = files.read_results(files.results_file(run_dir, level))
    base = files.read_baseline(baseline_file)
    chosen = (
        files.problems(problems, level)
        if problems is not None
        else files.problems_of_baseline(base, level, baseline_file)
    )
    pass_file = files.results_file(run_dir, level, files.PASSES)
    known = files.read_json(pass_file) if pass_file.exists() else None
    document, warnings = fastp.analyze(
        results,
        base,
        chosen,
        level,
        run_name=run_dir.resolve().name,
        hardware=hardware or baseline_file.resolve().parent.name,
        pass_at_k=known,
    )
    rows = fastp.rated(results, base, chosen, level)
    ties = fastp.tie_aware(rows)
    checked = baseline_check.check_baseline(results, base, chosen, level)
    if output is not None:
        write_atomic(output, json.dumps(document, indent=2).encode())
    if as_json:
        whole = {
            "schema": "profkit-fastp/1",
            "official": document,
            "tie_aware": ties,
            "problems": [{k: None if v != v else v for k, v in asdict(row).items()} for row in rows],
            "baseline": checked.to_dict(),
        }
        click.echo(json.dumps(whole, indent=1))
    else:
        click.echo(official.render(document, warnings, known))
        for block in (_ties(ties, rows), baseline_check.lines(checked, document)):
            click.echo("\n".join(["", *block]) if block else "", nl=bool(block))
    return 1 if checked.apart else 0


def _ties(ties: dict[str, dict[str, float]], rows: list[Rated]) -> list[str]:
    lines = [
        "With intervals (a speed-up counts when its whole interval is above p):",
        "     p    sure  possible  undecided",
    ]
    lines += [
        f"{float(p):6.1f}  {t['sure']:6.3f}  {t['possible']:8.3f}  {t['undecided']:9.0f}" for p, t in ties.items()
    ]
    shares = sorted(row.attainable_share for row in rows if row.attainable_share == row.attainable_share)
    if shares:
        lines.append(
            f"Share of the attainable speed-up: median {shares[len(shares) // 2]:.1%} over {len(shares)} problems"
        )
    unknown = sum(row.correct and row.low != row.low for row in rows)
    if unknown:
        lines.append(f"{unknown} correct problems have no interval: evaluate them with `profkit kernelbench eval`")
    return lines


for _verb in (models_, wrapper_, book_):
    command.add_command(_verb)
