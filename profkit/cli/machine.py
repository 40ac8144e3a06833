"""profkit doctor, ceilings and timers: what works on this machine, its peaks, its clocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profkit.cli import options as shared
from profkit.cli.terminal import show
from profkit.errors import ProfkitError
from profkit.record import ceilings
from profkit.record.ceilings import Measured
from profkit.report.layout import Column, Table, terminal_table
from profkit.targets import resolve
from roofline import units
from roofline.ceilings import UNITS
from roofline.device import derived_peaks, find_spec

if TYPE_CHECKING:
    from profkit.doctor.finding import Finding

DOCTOR = "profkit-doctor/1"
_MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}
_ABLE = {"cpu": "CPU", "events": "CUDA events", "counters": "hardware counters"}


@click.command("doctor")
@shared.json_
@shared.runs
def doctor_(as_json: bool, runs: Path) -> int:
    """Check driver, GPU, torch, compilers, Nsight tools, counter permission, disks.

    \b
    profkit doctor
    profkit doctor --json

    Exit code 3 if something that profiling needs does not work. A machine without a GPU is fine:
    profkit then measures on the CPU.
    """
    from profkit import doctor

    findings = doctor.check_all(runs=runs)
    can = doctor.abilities(findings)
    if as_json:
        shared.print_json({"schema": DOCTOR, "checks": findings, "can": can})
    else:
        show(_report(findings, can))
    return doctor.exit_code(findings)


def _report(findings: Sequence[Finding], can: dict[str, bool]) -> str:
    """One line per check, its fix below, and a summary."""
    width = max((len(finding.name) for finding in findings), default=0)
    lines = []
    for finding in findings:
        word, colour = _MARKS[finding.status]
        lines.append(f"{click.style(f'{word:<4}', fg=colour)}  {finding.name:<{width}}  {finding.what}")
        if finding.fix and finding.status != "ok":
            lines.append(f"{'':4}  {'':{width}}  fix: {finding.fix}")
    able = ", ".join(f"{words}: {'yes' if can[key] else 'no'}" for key, words in _ABLE.items())
    return "\n".join([*lines, "", f"profiling with {able}"])


@click.command("ceilings")
@click.option("--device", "kind", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@shared.json_
def ceilings_(kind: str, as_json: bool) -> int:
    """Measure DRAM, cache and arithmetic ceilings of this device and keep them for later runs.

    \b
    profkit ceilings                 measure again (the first run on an idle device also does)
    profkit ceilings --device cpu

    The table shows measured, derived (SMs x rate x clock during the measurement) and datasheet values side by side.
    """
    click.echo(f"  measuring; given up where it takes longer than {ceilings.LIMIT:g} s", err=True)
    found = ceilings.measure(kind)
    shared.print_json(found) if as_json else click.echo(_table(found))
    return 0


def _table(found: Measured) -> str:
    device, rows = found.device, found.ceilings
    spec = find_spec(str(device.get("name", "")), cc=device.get("cc"), sms=device.get("sms"))

    listed = {**spec.peaks, "dram": spec.bandwidth} if spec is not None else {}

    def figures(name: str) -> list[float]:
        return [float(row.get(name, math.nan)) for row in rows]

    def texts(values: Iterable[float]) -> list[str]:
        return [units.text(value, UNITS[row["kind"]]) for row, value in zip(rows, values, strict=True)]

    peaks, clocks = figures("peak"), figures("clock")
    names = ["dram" if row["name"].startswith("dram") else row["name"] for row in rows]
    sheets = [listed.get(name, math.nan) for name in names]
    # SMs x rate x the clock of the measurement.
    at = [derived_peaks(spec, clock=one) if spec is not None and one == one else {} for one in clocks]
    derived = [one.get(row["name"], math.nan) for row, one in zip(rows, at, strict=True)]
    columns = [
        Column("ceiling", [row["name"] for row in rows]),
        Column("measured", texts(peaks)),
        Column("derived", texts(derived), 3),
        Column("datasheet", texts(sheets), 2),
        Column("of datasheet", [units.percent(peak / sheet) for peak, sheet in zip(peaks, sheets, strict=True)], 1),
        Column("spread", [units.percent(one) for one in figures("spread")], 4),
        Column("SM clock", [units.text(one, "Hz") for one in clocks], 5),
        Column("power", [f"{one:.0f} W" if one == one else units.MISSING for one in figures("power")], 5),
        Column("variant", [str(row.get("variant", "")) for row in rows], 6),
    ]
    head = f"{device.get('name', 'unknown device')}, measured {found.created}"
    notes = [f"refused: {reason}" for reason in found.refused]
    notes += ["this device is not in devices.toml: measured ceilings alone"] if spec is None else []
    return "\n".join([head, terminal_table(Table.of(columns)), *notes])


@click.command("timers")
@click.argument("target", metavar="FILE.py:FUNCTION|FOLDER")
@shared.output("Figure of the clocks (.png, .svg or .pdf).")
@shared.json_
@shared.force
def timers_(target: str, output: Path | None, as_json: bool, force: bool) -> int:
    """Time one call with several timing methods, and attribute their differences.

    \b
    profkit timers S1/ICVXKH                           its first candidate that runs here
    profkit timers kernels.py:softmax -o timers.png    softmax(*get_inputs())

    Each method's difference from CUPTI (on a CPU, from profkit's method) is split by changing one cause at a time. The code
    runs in one process without walls. A CPU has two of the methods; the others need an NVIDIA GPU.
    """
    from profkit.record import timers  # pandas and matplotlib stay out of start-up
    from profkit.report.timers import clocks, figure
    from roofline.figure.plot import save

    if output is not None:
        shared.vacant(output, force, *shared.FIGURES)
    if ":" not in target:
        resolve(Path(target))
    document = timers.measure([target], lambda what: click.echo(f"  {what}", err=True))
    if output is not None:
        save(figure(document), output)
    shared.print_json(document) if as_json else click.echo(output or clocks(document))
    if document["kernels"][0]["error"]:
        raise ProfkitError(document["kernels"][0]["error"], fix="check that the code runs alone")
    return 0
