"""profkit doctor: what works on this machine, and the fix for what does not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profkit.cli import options as shared
from profkit.cli.terminal.screen import show

if TYPE_CHECKING:
    from profkit.doctor import Finding

SCHEMA = "profkit-doctor/1"
_MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}


@click.command("doctor", short_help="What works on this machine.")
@shared.json_
@click.option("--probe", is_flag=True, help="Also run ncu once, on a tiny program.")
@shared.runs
def command(as_json: bool, probe: bool, runs: Path) -> int:
    """Check this machine: driver, GPU, torch, compilers, Nsight tools, counter permission, disks.

    \b
    profkit doctor
    profkit doctor --probe        start ncu for real
    profkit doctor --json

    Exit code 3 when something that profiling needs here does not work. A machine without a GPU is fine: the
    lines say what is not possible, and the CPU works.
    """
    from profkit import doctor

    findings = doctor.check_all(probe=probe, runs=runs)
    can = doctor.abilities(findings)
    if as_json:
        checks = [asdict(finding) for finding in findings]
        click.echo(json.dumps({"schema": SCHEMA, "checks": checks, "can": can}, ensure_ascii=False, indent=1))
    else:
        show(render(findings, can))
    return doctor.exit_code(findings)


def render(findings: Sequence[Finding], can: dict[str, bool]) -> str:
    """A line a check, its fix below it, and what it comes to."""
    width = max((len(finding.name) for finding in findings), default=0)
    lines = []
    for finding in findings:
        word, colour = _MARKS[finding.status]
        lines.append(f"{click.style(f'{word:<4}', fg=colour)}  {finding.name:<{width}}  {finding.what}")
        if finding.fix and finding.status != "ok":
            lines.append(f"{'':4}  {'':{width}}  fix: {finding.fix}")
    words = {"cpu": "CPU", "events": "CUDA events", "counters": "hardware counters"}
    lines += [
        "",
        "profiling with " + ", ".join(f"{words[key]}: {'yes' if can[key] else 'no'}" for key in words),
    ]
    return "\n".join(lines)
