"""profkit check: what gets a contest submission rejected, and the known defects of its template."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from profkit.cli.screen import show
from profkit.contests.gpucodeforces.defect import Defect
from profkit.contests.gpucodeforces.form import Checked, check, submissions
from profkit.rundir import harmless

SCHEMA = "profkit-check/1"


@click.command("check", short_help="What gets a submission rejected, and advice.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--l2", "l2_mib", default=50.0, show_default=True, metavar="MiB", help="L2 size that T5 compares with.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(folder: Path, l2_mib: float, as_json: bool) -> int:
    """Check FOLDER, a GPUCodeForces submission, every submission of a season, or of the seasons in it; runs nothing.

    \b
    profkit check S1/ICVXKH

    \b
    F1..F8   what gets it rejected: files, definitions, the lines run_code.py prints, signatures
    T1..T13  advice: the template's known defects, each once, with its places and its fix

    Exit code 1 when something would be rejected; advice alone is no failure.
    """
    results = [check(one, l2_bytes=l2_mib * 2**20) for one in submissions(folder)]
    if as_json:
        click.echo(json.dumps(_document(results), ensure_ascii=False, indent=1))
    else:
        for result in results:
            show(render(result))
    return 1 if any(result.form for result in results) else 0


def _document(results: list[Checked]) -> dict[str, object]:
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
    return {"schema": SCHEMA, "samples": rows}


def render(result: Checked) -> str:
    """What rejects it, then the advice, a line a defect with its fix below; one line of praise when there is none."""
    path = harmless.line(str(result.path))
    if not result.defects:
        return f"{path}: nothing found"
    form, advice = result.form, result.advice
    head = f"would be rejected for {len(form)}" if form else "its form is right"
    lines = [f"{path}: {head}; {len(advice)} piece{'' if len(advice) == 1 else 's'} of advice"]
    lines += [line for defect in form for line in _told("rejected", defect)]
    lines += [line for defect in advice for line in _told("advice", defect)]
    return "\n".join(lines)


def _told(kind: str, defect: Defect) -> Iterator[str]:
    word = click.style(kind, fg="red" if defect.rejects else "yellow")
    yield f"  {word} {harmless.line(f'{defect.code} {defect.place}: {defect.what}')}"
    yield f"      fix: {harmless.line(defect.fix)}"
