"""The verbs of GPUCodeForces: profkit new, check, prompt, score."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profkit.cli import options as shared
from profkit.cli.options import PATH
from profkit.cli.terminal import show
from profkit.contests.gpucodeforces import score
from profkit.contests.gpucodeforces.form import ID, Checked, check, submissions
from profkit.contests.gpucodeforces.scaffold import create
from profkit.contests.gpucodeforces.score import Scored, Standing
from profkit.contests.prompt import compose
from profkit.report.layout import Column, Table, terminal_table
from profkit.report.sections.tables import ratio_text
from profkit.rundir import harmless
from profkit.rundir.directory import find_runs
from profkit.targets import resolve

if TYPE_CHECKING:
    from profkit.study.study import Study


@click.command("new")
@click.argument("path", type=PATH)
@click.option("--op", required=True, metavar="TEXT", help="The operation: softmax, gelu, swiglu.")
@click.option("--shape", default="4096,8192", show_default=True, metavar="N,M", help="Shape of each input.")
@click.option("--contestant", default="", metavar="NAME", help="The contestant, for readme.md.")
def new_(path: Path, op: str, shape: str, contestant: str) -> int:
    """Make a sample folder PATH. A contest's is named after its issue, S1/IABCDE.

    \b
    profkit new softmax --op softmax
    profkit new S1/IABCDE --op swiglu --shape 64,1024
    """
    sizes = tuple(int(size) for size in re.findall(r"\d+", shape))
    if not sizes or 0 in sizes:
        raise click.UsageError(f"--shape {shape!r}: give positive sizes separated by commas")
    for file in create(path, op, sizes, contestant):
        click.echo(str(file))
    contest = f"profkit check {path}; " if ID.fullmatch(path.name) else ""
    click.echo(f"next: {contest}profkit profile {path}", err=True)
    return 0


@click.command("check")
@click.argument("folder", type=PATH)
@shared.json_
def check_(folder: Path, as_json: bool) -> int:
    """Check FOLDER, a GPUCodeForces submission, or every submission of a season; runs nothing.

    \b
    profkit check S1/ICVXKH

    \b
    F1..F5   reasons for rejection: files, definitions, the lines run_code.py prints
    P1       the prompt earns no bonus

    Exit code 1 if a submission would be rejected.
    """
    results = [check(one) for one in submissions(folder)]
    if as_json:
        rows = [
            {
                "sample": result.path.resolve().name,
                "path": str(result.path),
                "ok": not result.defects,
                "rejected": bool(result.form),
                "defects": [defect.to_dict() for defect in result.defects],
            }
            for result in results
        ]
        shared.print_json({"schema": "profkit-check/1", "samples": rows})
    else:
        for result in results:
            show(_checked(result))
    return 1 if any(result.form for result in results) else 0


def _checked(result: Checked) -> str:
    """One line per defect with its fix; one line if there is none."""
    path = harmless.line(str(result.path))
    if not result.defects:
        return f"{path}: nothing found"
    lines = [f"{path}: " + (f"would be rejected for {len(result.form)}" if result.form else "its form is right")]
    for defect in sorted(result.defects, key=lambda one: not one.rejects):
        word = click.style("rejected", fg="red") if defect.rejects else click.style("no bonus", fg="yellow")
        lines.append(f"  {word} {harmless.line(f'{defect.code} {defect.file}: {defect.what}')}")
        lines.append(f"      fix: {harmless.line(defect.fix)}")
    return "\n".join(lines)


@click.command("prompt")
@click.argument("folder", type=PATH)
@click.option("--run", "run_path", type=PATH, help="Take the evidence from this run; default: the sample's newest.")
@shared.runs
@shared.output("Default: FOLDER/prompt.txt; - is stdout.")
@shared.force
def prompt_(folder: Path, run_path: Path | None, runs: Path, output: Path | None, force: bool) -> int:
    """Write the prompt of FOLDER: example, rules, measured evidence, architecture.

    \b
    profkit prompt S1/ICVXKH -o -
    """
    from profkit.study.study import open_study  # pandas

    sample = resolve(folder)
    own = runs / sample.id
    if run_path is None and own.is_dir() and any(own.rglob("run.json")):
        run_path = own
    run = open_study(run_path) if run_path is not None else None
    target = output or folder / "prompt.txt"
    shared.deliver(compose(sample, run), target, force)
    if str(target) != "-":
        click.echo(f"{target}" + (f" (evidence: {run.path})" if run is not None else ""), err=True)
    return 0


@click.command("score")
@click.argument("folder", type=PATH, default=Path("S1"))
@shared.runs
@shared.json_
def score_(folder: Path, runs: Path, as_json: bool) -> int:
    """Score every sample of FOLDER: base points, bonus, and the contestants' ranking.

    \b
    profkit score S1 --json

    A sample is accepted if its form is right and its newest run passed.
    The contestant comes from a line `参赛者: NAME` in readme.md.
    """
    rows = score.ordered(score.score(one, _newest(runs / one.resolve().name)) for one in submissions(folder))
    standings = score.rank(rows)
    if as_json:
        samples = [score.to_dict(row) for row in rows]
        shared.print_json({"schema": "profkit-score/1", "samples": samples, "ranking": standings})
    else:
        click.echo(_scores(rows, standings))
    return 0


def _newest(folder: Path) -> Study | None:
    from profkit.study.study import Study  # pandas

    done = [run for run in find_runs(folder) if run.manifest.status == "done"] if folder.is_dir() else []
    return Study(max(done, key=lambda run: run.manifest.created)) if done else None


def _scores(rows: list[Scored], standings: list[Standing]) -> str:
    words = {True: "yes", False: "no", None: "?"}
    points = {"gt": "GT", "time": "time", "throughput": "throughput", "bandwidth": "bandwidth"}
    samples = [
        Column("sample", [row.id for row in rows]),
        Column("contestant", [row.contestant for row in rows], 2),
        Column("accepted", [words[row.accepted] for row in rows]),
        *(Column(head, [str(row.points[key]) for row in rows], 4) for key, head in points.items()),
        Column("base", [f"{row.base}/14" for row in rows]),
        Column("bonus", [str(row.bonus) for row in rows], 3),
        Column("speed-up", [ratio_text(row.speedup) for row in rows], 1),
        Column("why", [_why(row) for row in rows]),
    ]
    ranking = [
        Column("place", [str(one.place or "-") for one in standings]),
        Column("contestant", [one.contestant for one in standings]),
        *(Column(key, [str(getattr(one, key)) for one in standings]) for key in ("accepted", "base", "bonus")),
        Column("samples", [" ".join(one.samples) for one in standings]),
    ]
    return "\n".join(terminal_table(Table.of(columns)) for columns in (samples, ranking)).rstrip()


def _why(row: Scored) -> str:
    alike = row.similar_to and row.similar != "similar"
    return row.why + (f"; same case as {row.similar_to}: {row.similar}" if alike else "")
