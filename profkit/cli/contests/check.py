"""profkit check: what gets a contest submission rejected."""

from __future__ import annotations

import json
from pathlib import Path

import click

from profkit.cli import options as shared
from profkit.cli.terminal.screen import show
from profkit.contests.gpucodeforces.form import Checked, check, submissions
from profkit.rundir import harmless

SCHEMA = "profkit-check/1"


@click.command("check", short_help="What gets a submission rejected.")
@click.argument("folder", type=click.Path(path_type=Path))
@shared.json_
def command(folder: Path, as_json: bool) -> int:
    """Check FOLDER, a GPUCodeForces submission, every submission of a season, or of the seasons in it; runs nothing.

    \b
    profkit check S1/ICVXKH

    \b
    F1..F8   what gets it rejected: files, definitions, the lines run_code.py prints, signatures
    P1       a prompt that earns no bonus

    Exit code 1 when something would be rejected.
    """
    results = [check(one) for one in submissions(folder)]
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
    """A line a defect with its fix below it; one line when there is none."""
    path = harmless.line(str(result.path))
    if not result.defects:
        return f"{path}: nothing found"
    lines = [f"{path}: " + (f"would be rejected for {len(result.form)}" if result.form else "its form is right")]
    for defect in sorted(result.defects, key=lambda one: not one.rejects):
        word = click.style("rejected", fg="red") if defect.rejects else click.style("no bonus", fg="yellow")
        lines.append(f"  {word} {harmless.line(f'{defect.code} {defect.place}: {defect.what}')}")
        lines.append(f"      fix: {harmless.line(defect.fix)}")
    return "\n".join(lines)
