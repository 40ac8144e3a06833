"""profkit kernelbench: KernelBench, its wrapper's files, and KernelBook."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profkit.cli import options as shared
from profkit.cli.group import complain
from profkit.cli.options import PATH, Runners, option, request_of
from profkit.cli.terminal import progress
from profkit.contests.json_files import read_json
from profkit.contests.kernelbench import files, kernelbook, models, wrapper
from profkit.contests.kernelbench.evaluation import Runner, baseline, evaluate, in_turn
from profkit.contests.kernelbench.files import Generated, Problem, own_of, write_json
from profkit.contests.sources import write_new
from profkit.report.layout import Column, Table, terminal_table
from profkit.rundir.files import write_atomic

if TYPE_CHECKING:
    from profkit.contests.kernelbench.fastp import Rated
    from profkit.record.request import Request
    from profkit.study.study import Study


class Verbs(click.Group):
    """Verbs of KernelBench; "analyse" means "analyze"."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, "analyze" if cmd_name == "analyse" else cmd_name)


@click.group("kernelbench", cls=Verbs)
def kernelbench_() -> None:
    """Work with KernelBench: evaluate, baseline, analyze, ask models.

    \b
    profkit kernelbench baseline CHECKOUT --level 1 -o baseline_time_torch.json
    profkit kernelbench eval CHECKOUT runs/mine --level 1
    profkit kernelbench analyze runs/mine --baseline baseline_time_torch.json --level 1
    profkit kernelbench models config.toml
    """


def _numbers(_ctx: click.Context, _param: click.Parameter, text: str) -> list[int]:
    """Parse `1,3,5-8` to a list of integers."""
    found: list[int] = []
    for part in filter(None, text.replace(" ", "").split(",")):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise click.UsageError(f"{text!r}: ids are numbers, as in 1,3,5-8")
        found += range(int(first), int(last or first) + 1)
    return found


_level = option("--level", type=int, required=True)
_problem = option("--problem", "ids", default="", metavar="1,3,5-8", callback=_numbers, help="Only these problems.")
_measuring = shared.shared(
    shared.of_request("device", "trials", "budget", "processes", "precision", "timeout", "ncu", "runs"), shared.quiet
)
_fenced = shared.of_request("trust", "allow", "memory", "sanitize")


@kernelbench_.command("eval", cls=shared.Sectioned)
@click.argument("checkout", type=PATH)
@click.argument("run_dir", type=PATH)
@_level
@_problem
@option("--k", "ks", default="1", show_default=True, metavar="1,5", callback=_numbers, help="Values of k for pass@k.")
@_fenced
@_measuring
@shared.campaign
def eval_(checkout: Path, run_dir: Path, level: int, quiet: bool, **given: Any) -> int:
    """Evaluate the candidates of RUN_DIR on the problems of CHECKOUT into eval_results.json.

    Existing results stay. Exit code 1 if a candidate is wrong.
    """
    ids, ks, jobs, dask = (given.pop(name) for name in ("ids", "ks", "jobs", "dask"))
    runners, failed = Runners.of(jobs, dask, quiet), list[str]()
    from profkit.contests.kernelbench.fastp import pass_at_k

    # A campaign draws its own table.
    with progress(quiet or runners is not None) as now:
        name = f"profkit kernelbench eval {checkout} {run_dir} --level {level}"
        runner = in_turn(now) if runners is None else _campaign(name, runners, failed)
        chosen = files.problems(checkout, level, ids)
        results = evaluate(chosen, run_dir, level, request_of(mode="train", **given), runner=runner)
    write_json(run_dir / files.PASSES, pass_at_k(results, ks or [1]))
    rows = [(pid, row) for pid in sorted(results, key=int) for row in results[pid]]
    for pid, row in rows:
        click.echo(_eval_line(pid, row))
    click.echo(f"{run_dir / files.RESULTS}: {len(rows)} samples", err=True)
    good = all(row["correctness"] and not own_of(row).get("unsound") for _, row in rows)
    return 0 if good and not failed else 1


def _campaign(name: str, runners: Runners, failed: list[str]) -> Runner:
    """Runner for evaluation; failures are printed and added to `failed`."""
    from profkit.campaign.stages import of_pair
    from profkit.study.study import open_study

    def run(todo: Sequence[tuple[Generated, Problem]], request: Request) -> Iterator[tuple[Generated, Study]]:
        known = {g.path.name: g for g, _ in todo}
        items = [of_pair(g.name, problem.path, g.path, request) for g, problem in todo]
        for item, one in runners.run(name, items, request):
            if one.error:
                complain(f"{item.label}: {one.error}", one.fix)
            if one.run:
                yield known[item.label], open_study(one.run)
            else:
                failed.append(item.label)

    return run


def _eval_line(pid: str, row: dict[str, Any]) -> str:
    own = own_of(row)
    words = f"problem {pid} sample {row['sample_id']}: compiled={row['compiled']} correct={row['correctness']}"
    if own.get("speedup") and own.get("speedup_low"):
        words += f" {row['runtime']:g} ms, {own['line']}"
    elif own.get("status") not in (None, "ok"):
        words += f" {own['status']}"
    error = row["metadata"].get("compilation_error") or row["metadata"].get("error")
    return f"{words}: {error}" if error else words


@kernelbench_.command("baseline", cls=shared.Sectioned)
@click.argument("checkout", type=PATH)
@_level
@_problem
@shared.output("The file to write.", Path("baseline_time_torch.json"))
@option("--compiled", type=PATH, metavar="FILE", help="Also time torch.compile, into this file.")
@_measuring
def baseline_(
    checkout: Path, level: int, ids: list[int], output: Path, compiled: Path | None, quiet: bool, **options: Any
) -> int:
    """Time the references of CHECKOUT and add them to an official baseline file."""

    with progress(quiet) as now:
        chosen = files.problems(checkout, level, ids)
        done = baseline(chosen, output, request_of(mode="train", **options), compiled=compiled, progress=now)
    count = len(done.get(f"level{level}", {}))
    click.echo(f"{output}: {count} problems of level {level}")
    return 0 if count else 1


@kernelbench_.command("analyze", cls=shared.Sectioned)
@click.argument("run_dir", type=PATH)
@option("--baseline", "baseline_file", type=PATH, required=True)
@_level
@option("--problems", type=PATH, metavar="CHECKOUT", help="Problems of the level; default: the baseline's.")
@shared.output("Write the official document here.")
@shared.json_
def analyze_(
    run_dir: Path,
    baseline_file: Path,
    level: int,
    problems: Path | None,
    output: Path | None,
    as_json: bool,
) -> int:
    """Print the official analysis of RUN_DIR/eval_results.json, then what exceeds noise.

    Exit code 1 if the baseline contradicts the reference times measured with the rows.
    """
    from profkit.contests.kernelbench import fastp  # numpy

    results = files.read_results(run_dir / files.RESULTS)
    base = files.read_baseline(baseline_file)
    if problems is None:
        chosen = files.problems_of_baseline(base, level, baseline_file)
    else:
        chosen = files.problems(problems, level)
    pass_file = run_dir / files.PASSES
    known = read_json(pass_file) if pass_file.exists() else None
    names = {"run_name": run_dir.resolve().name, "hardware": baseline_file.resolve().parent.name}
    document, warnings = fastp.analyze(results, base, chosen, level, pass_at_k=known, **names)
    rows = fastp.rated(results, base, chosen, level)
    ties = fastp.tie_aware(rows)
    checked = fastp.check_baseline(results, base, chosen, level)
    if output is not None:
        write_atomic(output, json.dumps(document, indent=2).encode())
    if as_json:
        own = {"tie_aware": ties, "problems": rows, "baseline": checked}
        shared.print_json({"schema": "profkit-fastp/1", "official": document, **own})
    else:
        for line in [*warnings, *_official(document, known)]:
            click.echo(line)
        for block in (_ties(ties, rows), _disagreeing(checked)):
            click.echo("\n".join(["", *block]) if block else "", nl=bool(block))
    return 1 if checked["disagree"] else 0


def _disagreeing(checked: dict[str, Any]) -> list[str]:
    """Problems with a baseline that contradicts the reference time in their rows."""
    apart = checked["disagree"]
    if not apart:
        return []
    return [
        f"The baseline disagrees: {len(apart)} of {checked['checked']} problems are more than {checked['limit']:.0%} from"
        " the reference that was timed beside the candidate (another machine, other shapes?):",
        *(
            f"  {one['name']}: baseline {one['baseline'] * 1e3:.3g} ms, reference here {one['reference'] * 1e3:.3g} ms"
            f" ({one['ratio']:.3g}x)"
            for one in apart
        ),
        "Speed-ups over this baseline mean nothing here.",
    ]


def _official(document: dict[str, Any], passes: dict[str, Any] | None) -> list[str]:
    said = [
        f"{document['run_name']}: {document['total_eval']} of {document['total_count']} problems evaluated",
        f"Successfully compiled: {document['compiled_count']} ({document['compilation_rate']:.1%})",
        f"Functionally correct: {document['correct_count']} ({document['correctness_rate']:.1%})",
        f"Geometric mean of the speed-up of the correct ones: {document['geo_mean_speedup']:.4f}",
        *(f"fast_{p}: {score:.4g}" for p, score in document["fast_p"].items()),
    ]
    return said + [f"{name}: {value:.4g}" for name, value in ((passes or {}).get("averages") or {}).items()]


def _ties(ties: dict[str, dict[str, float]], rows: list[Rated]) -> list[str]:
    columns = [Column("p", [f"{float(p):.1f}" for p in ties])]
    columns += [Column(key, [f"{t[key]:.3f}" for t in ties.values()]) for key in ("sure", "possible")]
    columns.append(Column("inconclusive", [f"{t['inconclusive']:.0f}" for t in ties.values()]))
    lines = ["With intervals (a speed-up counts when its whole interval is above p):"]
    lines.append(terminal_table(Table.of(columns)).rstrip())
    unknown = sum(row.correct and row.low != row.low for row in rows)
    if unknown:
        lines.append(f"{unknown} correct problems have no interval: evaluate them with `profkit kernelbench eval`")
    return lines


@kernelbench_.command("models", cls=shared.Sectioned)
@click.argument("config", type=PATH)
@option("--no-eval", is_flag=True, help="Ask the models, evaluate nothing.")
@shared.json_
@_fenced
@_measuring
def models_(config: Path, no_eval: bool, as_json: bool, quiet: bool, **options: Any) -> int:
    """Ask the models of CONFIG (toml) for candidates, evaluate them, print a table.

    Paths in CONFIG are relative to it. The key comes from the environment. Prompts and answers are kept;
    repeat the command to ask only the unanswered ones.
    """
    wanted = models.read_config(config)
    asked = models.questions(wanted, config.resolve().parent)
    with progress(quiet) as now:
        models.ask_all(wanted, asked, progress=now)
        if not no_eval:
            models.evaluate_all(asked, request_of(mode="train", **options), now)
    rows = models.table(wanted, asked)
    document = {"schema": models.SCHEMA, "level": wanted.task.level, "models": rows}
    write_json(asked[0].folder.parent / "models.json", document)
    if as_json:
        shared.print_json(document)
    else:
        columns = [
            Column(head, ["-" if row[key] is None else format(row[key], form) for row in rows], rank)
            for key, (head, form, rank) in _COLUMNS.items()
        ]
        why = ["; ".join(f"{why[:60]} ({n})" for why, n in row["failures"].items()) for row in rows]
        click.echo(terminal_table(Table.of([*columns, Column("why not", why)])).rstrip())
    return 0 if any(row["answered"] for row in rows) else 1


_COLUMNS = {
    "model": ("model", "", 0),
    "asked": ("asked", "d", 3),
    "answered": ("answered", "d", 2),
    "compiled": ("compiled", "d", 2),
    "correct": ("correct", "d", 0),
    "geo_mean_speedup": ("speed-up", ".3g", 0),
    "fast_1": ("fast_1", ".3g", 1),
    "fast_2": ("fast_2", ".3g", 1),
    "prompt_tokens": ("tokens in", "d", 5),
    "completion_tokens": ("out", "d", 5),
}
"""Key of a models row -> column head, format, rank."""


@kernelbench_.command("wrapper", cls=shared.Sectioned)
@click.argument("given", type=PATH, nargs=-1, required=True, metavar="FILES...")
@option("--baseline", "baseline_file", type=PATH, help="The wrapper's baseline_time.json.")
@shared.json_
def wrapper_(given: tuple[Path, ...], baseline_file: Path | None, as_json: bool) -> int:
    """Read a KernelBench wrapper's result files and flag their defects.

    Exit code 1 if a defect is found.
    """
    bases = [file for file in given if "runtime_mean_ms" in (read_json(file) or {})]
    chosen = next(filter(None, (baseline_file, *bases)), None)
    base = wrapper.read_wrapper_baseline(chosen) if chosen is not None else None
    rows = [row for file in given if file not in bases for row in wrapper.read_wrapper_results(file, base)]
    caveats = [*(base["caveats"] if base else ()), *(caveat for row in rows for caveat in row["caveats"])]
    if as_json:
        shared.print_json({"schema": "profkit-wrapper/1", "baseline": base, "results": rows})
        return 1 if caveats else 0
    if base is not None:
        click.echo("level {level} problem {problem_id} {problem_name}: {seconds:.6g} s on {device}".format(**base))
    for row in rows:
        said = "{model}: generated={generated} compiled={compiled} correct={correct} {seconds:.6g} s, {speedup:.3g}x"
        click.echo(f"{said} fast_1={{fast_1}} fast_2={{fast_2}}".format(**row))
    for caveat in dict.fromkeys(caveats):
        click.echo(f"flag: {caveat}")
    return 1 if caveats else 0


@kernelbench_.command("book", cls=shared.Sectioned)
@click.argument("file", type=PATH)
@option("--row", "number", type=int, default=0, show_default=True, help="Row number, from 0.")
@shared.output("Folder to write; default: the row's entry point.")
def book_(file: Path, number: int, output: Path | None) -> int:
    """Make a sample folder (reference.py, candidate.py) of a KernelBook row."""
    chosen = next(islice(kernelbook.read_rows(file), number, None), None)
    if chosen is None:
        raise click.UsageError(f"{file}: no row {number}")
    pair = kernelbook.adapt(chosen)
    folder = write_new(pair, output or Path(pair.name))
    click.echo(str(folder))
    return 0
