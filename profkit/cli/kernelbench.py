"""profkit kernelbench: KernelBench's files, evaluated and analysed; its wrapper and KernelBook as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from profkit.request import Request

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


def _measuring(function: Any) -> Any:
    """The options of everything that measures."""
    for option in reversed([
        click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True),
        click.option("--trials", default=5, show_default=True, type=click.IntRange(1), help="Correctness trials (n_correctness)."),
        click.option("--budget", default=5.0, show_default=True, metavar="SECONDS", help="Timing, per candidate."),
        click.option("--timeout", default=1.0, show_default=True, metavar="FACTOR", help="Scale every time limit."),
        click.option("--ncu", "counters", flag_value="ncu", help="Collect hardware counters as well."),
        click.option("--runs", type=_PATH, default=Path("profkit-runs"), show_default=True, help="Where profkit's runs go."),
        click.option("-q", "--quiet", is_flag=True, help="No progress."),
    ]):  # fmt: skip
        function = option(function)
    return function


def _request(device: str, trials: int, budget: float, timeout: float, counters: str | None, runs: Path) -> Request:
    from profkit.request import Request

    return Request(device=device, trials=trials, budget=budget, timeout=timeout, counters=counters or "off", runs=runs)


def _say(quiet: bool) -> Any:
    return (lambda _: None) if quiet else (lambda text: click.echo(f"  {text}", err=True))


def _ids(text: str) -> list[int]:
    """`1,3,5-8` as a list."""
    found: list[int] = []
    for part in filter(None, text.replace(" ", "").split(",")):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise click.UsageError(f"{text!r}: ids are numbers, as in 1,3,5-8")
        found += range(int(first), int(last or first) + 1)
    return found


def _chosen(checkout: Path, level: int, ids: str) -> list[Any]:
    from profkit.error import ProfkitError
    from profkit.samples.kernelbench import problems

    found, wanted = problems(checkout, level), _ids(ids)
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
@click.option("--k", "ks", default="1", show_default=True, metavar="1,5", help="pass@k to write.")
@click.option("--again", is_flag=True, help="Evaluate what is in eval_results.json once more.")
@_measuring
def eval_(checkout: Path, run_dir: Path, level: int, ids: str, samples: str, ks: str, again: bool, quiet: bool, **options: Any) -> int:
    """Evaluate the candidates of RUN_DIR against the problems of CHECKOUT; writes eval_results.json there.

    Exit code 1 when a candidate is wrong.
    """
    from profkit.samples.evaluation import RESULTS, evaluate
    from profkit.samples.fastp import pass_at_k
    from profkit.samples.kernelbench import write_json

    results = evaluate(_chosen(checkout, level, ids), run_dir, level, _request(**options),
                       samples=_ids(samples), again=again, progress=_say(quiet))  # fmt: skip
    write_json(run_dir / "pass_at_k_results.json", pass_at_k(results, _ids(ks) or [1]))
    rows = [row for many in results.values() for row in many]
    for pid in sorted(results, key=int):
        for row in results[pid]:
            click.echo(_eval_line(pid, row))
    click.echo(f"{run_dir / RESULTS}: {len(rows)} samples", err=True)
    return 0 if all(row["correctness"] for row in rows) else 1


def _eval_line(pid: str, row: dict[str, Any]) -> str:
    own = row["metadata"].get("profkit") or {}
    words = f"problem {pid} sample {row['sample_id']}: compiled={row['compiled']} correct={row['correctness']}"
    if own.get("speedup") and own.get("speedup_low"):
        words += f" {row['runtime']:g} ms, {own['speedup']:.3g}x [{own['speedup_low']:.3g}, {own['speedup_high']:.3g}] {own['verdict']}"
    elif own.get("status") not in (None, "ok"):
        words += f" {own['status']}"
    return words


@command.command("baseline")
@click.argument("checkout", type=_PATH)
@click.option("--level", type=int, required=True)
@click.option("--problem", "ids", default="", metavar="1,3,5-8", help="Only these problems.")
@click.option("-o", "--output", type=_PATH, default=Path("baseline_time_torch.json"), show_default=True)
@click.option("--compiled", type=_PATH, metavar="FILE", help="Also time torch.compile, into this file.")
@_measuring
def baseline_(checkout: Path, level: int, ids: str, output: Path, compiled: Path | None, quiet: bool, **options: Any) -> int:
    """Time the references of CHECKOUT; writes an official baseline file. What is in it already stays."""
    from profkit.samples.evaluation import baseline

    done = baseline(_chosen(checkout, level, ids), output, _request(**options), compiled=compiled, progress=_say(quiet))
    count = len(done.get(f"level{level}", {}))
    click.echo(f"{output}: {count} problems of level {level}")
    return 0 if count else 1


@command.command("analyze")
@click.argument("run_dir", type=_PATH)
@click.option("--baseline", "baseline_file", type=_PATH, required=True)
@click.option("--level", type=int, required=True)
@click.option("--problems", type=_PATH, metavar="CHECKOUT", help="The level's problems; default: those of the baseline.")
@click.option("--hardware", default="", help="Name for the document; default: the baseline's folder.")
@click.option("-o", "--output", type=_PATH, help="Write the official document here.")
@click.option("--json", "as_json", is_flag=True, help="The official document and profkit's on stdout.")
def analyze_(
    run_dir: Path, baseline_file: Path, level: int, problems: Path | None, hardware: str, output: Path | None, as_json: bool
) -> int:  # fmt: skip
    """The official analysis of RUN_DIR/eval_results.json, to the last digit; then what noise leaves of it."""
    from profkit.samples import fastp, kernelbench
    from profkit.samples.official import render

    results = kernelbench.read_results(run_dir / "eval_results.json")
    base = kernelbench.read_baseline(baseline_file)
    level_problems = (
        kernelbench.problems(problems, level) if problems is not None
        else kernelbench.problems_of_baseline(base, level, baseline_file)
    )  # fmt: skip
    pass_file = run_dir / "pass_at_k_results.json"
    known = kernelbench.read_json(pass_file) if pass_file.exists() else None
    document, warnings = fastp.analyze(results, base, level_problems, level, run_name=run_dir.resolve().name,
                                       hardware=hardware or baseline_file.resolve().parent.name, pass_at_k=known)  # fmt: skip
    rows = fastp.judged(results, base, level_problems, level)
    ties = fastp.tie_aware(rows)
    if output is not None:
        from profkit.run import write_atomic

        write_atomic(output, json.dumps(document, indent=2).encode())
    if as_json:
        click.echo(json.dumps({"schema": "profkit-fastp/1", "official": document, "tie_aware": ties,
                               "problems": [_judged(row) for row in rows]}, indent=1))  # fmt: skip
    else:
        click.echo(render(document, warnings, known))
        click.echo(_render_ties(ties, rows))
    return 0


def _judged(row: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return {key: None if value != value else value for key, value in asdict(row).items()}


def _render_ties(ties: dict[str, dict[str, float]], rows: list[Any]) -> str:
    lines = ["", "With intervals (a speed-up counts when its whole interval is above p):",
             "     p    sure  possible  undecided"]  # fmt: skip
    lines += [f"{float(p):6.1f}  {t['sure']:6.3f}  {t['possible']:8.3f}  {t['undecided']:9.0f}" for p, t in ties.items()]
    shares = sorted(row.attainable_share for row in rows if row.attainable_share == row.attainable_share)
    if shares:
        lines.append(f"Share of the attainable speed-up: median {shares[len(shares) // 2]:.1%} over {len(shares)} problems")
    unknown = sum(row.correct and row.low != row.low for row in rows)
    if unknown:
        lines.append(f"{unknown} correct problems have no interval: evaluate them with `profkit kernelbench eval`")
    return "\n".join(lines)


@command.command("models")
@click.argument("config", type=_PATH)
@click.option("--no-eval", is_flag=True, help="Ask only.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@_measuring
def models_(config: Path, no_eval: bool, as_json: bool, quiet: bool, **options: Any) -> int:
    """Ask the models of CONFIG (toml) for candidates, evaluate them, and print the table of models.

    Paths in CONFIG are relative to it. The key is read from the environment. Every prompt and answer is kept;
    started again, it asks only what has no answer yet.
    """
    from profkit.llm import arena
    from profkit.llm.config import read_config
    from profkit.samples.kernelbench import write_json

    wanted = read_config(config)
    asked = arena.questions(wanted, config.resolve().parent)
    arena.ask_all(wanted, asked, progress=_say(quiet))
    if not no_eval:
        arena.evaluate_all(asked, _request(**options), _say(quiet))
    rows = arena.table(wanted, asked)
    document = {"schema": arena.SCHEMA, "level": wanted.task.level, "models": rows}
    write_json(asked[0].folder.parent / "models.json", document)
    click.echo(json.dumps(document, ensure_ascii=False, indent=1) if as_json else _models_table(rows))
    return 0 if any(row["answered"] for row in rows) else 1


def _models_table(rows: list[dict[str, Any]]) -> str:
    from profkit.report.table import Table
    from profkit.report.terminal import render

    head = ["model", "asked", "answered", "compiled", "correct", "speed-up", "fast_1", "fast_2", "tokens in", "out", "cost", "why not"]
    cells = [
        [r["model"], str(r["asked"]), str(r["answered"]), str(r["compiled"]), str(r["correct"]),
         "-" if r["geo_mean_speedup"] is None else f"{r['geo_mean_speedup']:.3g}x", f"{r['fast_1']:.3g}", f"{r['fast_2']:.3g}",
         *("-" if r[k] is None else str(r[k]) for k in ("prompt_tokens", "completion_tokens")),
         "-" if r["cost"] is None else f"{r['cost']:.4g}", "; ".join(f"{why[:60]} ({n})" for why, n in r["failures"].items())]
        for r in rows
    ]  # fmt: skip
    return render(Table(head, cells)).rstrip()


@command.command("wrapper")
@click.argument("files", type=_PATH, nargs=-1, required=True)
@click.option("--baseline", "baseline_file", type=_PATH, help="The wrapper's baseline_time.json.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def wrapper_(files: tuple[Path, ...], baseline_file: Path | None, as_json: bool) -> int:
    """Read a KernelBench wrapper's baseline_time.json and test_results_*.json, with their defects flagged.

    Exit code 1 when something was flagged.
    """
    from dataclasses import asdict

    from profkit.samples import wrapper
    from profkit.samples.kernelbench import read_json

    given = [file for file in files if "runtime_mean_ms" in (read_json(file) or {})]
    chosen = baseline_file or (given[0] if given else None)
    base = wrapper.read_wrapper_baseline(chosen) if chosen is not None else None
    rows = [row for file in files if file not in given for row in wrapper.read_wrapper_results(file, base)]
    doubts = [*(base.doubts if base else ()), *(doubt for row in rows for doubt in row.doubts)]
    if as_json:
        click.echo(json.dumps({"schema": "profkit-wrapper/1", "baseline": asdict(base) if base else None,
                               "results": [row.to_dict() for row in rows]}, ensure_ascii=False, indent=1))  # fmt: skip
    else:
        if base is not None:
            click.echo(f"level {base.level} problem {base.problem_id} {base.problem}: {base.seconds:.6g} s on {base.device}")
        for row in rows:
            click.echo(f"{row.model}: generated={row.generated} compiled={row.compiled} correct={row.correct} "
                       f"{row.seconds:.6g} s, {row.speedup:.3g}x fast_1={row.fast_1} fast_2={row.fast_2}")  # fmt: skip
        for doubt in dict.fromkeys(doubts):
            click.echo(f"flag: {doubt}")
    return 1 if doubts else 0


@command.command("book")
@click.argument("file", type=_PATH)
@click.option("--row", "number", type=int, default=0, show_default=True, help="Which row, from 0.")
@click.option("-o", "--output", type=_PATH, help="Folder to write; default: the row's entry point.")
@click.option("--check", is_flag=True, help="Write nothing; say how many rows can be adapted, and why others cannot.")
def book_(file: Path, number: int, output: Path | None, check: bool) -> int:
    """Make a sample folder (reference.py, candidate.py) of a KernelBook row."""
    from itertools import islice

    from profkit.error import ProfkitError
    from profkit.samples import kernelbook

    if check:
        good, reasons = 0, dict[str, int]()
        for row in kernelbook.read_rows(file):
            try:
                kernelbook.adapt(row)
                good += 1
            except ProfkitError as error:
                why = str(error).split(": ", 1)[-1]
                reasons[why] = reasons.get(why, 0) + 1
        click.echo(f"{good} rows can be adapted")
        for why, count in sorted(reasons.items(), key=lambda item: -item[1]):
            click.echo(f"{count} not: {why}")
        return 0
    chosen = next(islice(kernelbook.read_rows(file), number, None), None)
    if chosen is None:
        raise click.UsageError(f"{file}: no row {number}")
    pair = kernelbook.adapt(chosen)
    folder = kernelbook.write_pair(pair, output or Path(pair.entry_point))
    for doubt in pair.doubts:
        click.echo(f"note: {doubt}", err=True)
    click.echo(str(folder))
    return 0
