"""profkit ceilings: what this GPU can really do, measured."""

from __future__ import annotations

import json
import math
from typing import Any

import click

from profkit.errors import CannotProfileError
from profkit.launch.gpu import identity
from profkit.record import ceilings
from profkit.record.ceilings import Measured


@click.command("ceilings", short_help="Measure this device's roofs.")
@click.option("--device", "kind", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option("--sustained", is_flag=True, help="Hold each tensor roof for 30 s as well, and meet it after idling.")
@click.option("--list", "only_list", is_flag=True, help="Show what is known; measure nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(kind: str, sustained: bool, only_list: bool, as_json: bool) -> int:
    """Measure DRAM, cache and arithmetic roofs of this GPU (half a minute on an H200) and keep them for later runs.

    \b
    profkit ceilings                 once a device and driver
    profkit ceilings --list          what is kept of this one
    profkit ceilings --device cpu    to look at: a run on a CPU measures its own each time

    --sustained adds what a tensor roof is worth without a rest (tensor_bf16_sustained) and after idling, as a server's GPU
    meets it (tensor_bf16_server); the figures without those endings are short bursts. The table shows measured, derived (SMs x rate x the clock of the measurement) and datasheet side by side.
    """
    if only_list:
        found = _known(kind)
        if found is None:
            click.echo("no measured ceilings for this device; `profkit ceilings` measures them", err=True)
            return 1
    else:
        click.echo(f"  measuring; given up where it takes longer than {ceilings.LIMITS[sustained]:g} s", err=True)
        found = ceilings.measure(kind, sustained=sustained)
    if as_json:
        click.echo(json.dumps({"schema": ceilings.SCHEMA, **found.__dict__}, ensure_ascii=False))
    else:
        click.echo(_table(found))
    return 0


def _known(kind: str) -> Measured | None:
    device = identity()
    if kind == "cpu" or not device:
        none = "" if device else "no NVIDIA GPU here; "
        raise CannotProfileError(
            f"{none}a CPU's ceilings are not kept, each run measures its own",
            fix="`profkit ceilings --device cpu` measures them now",
        )
    return ceilings.known(device)


def _table(found: Measured) -> str:
    from profkit.report.layout import Table, terminal_table
    from roofline.device import derived_peaks, find_spec

    device = found.device
    spec = find_spec(str(device.get("name", "")), cc=device.get("cc"), sms=device.get("sms"))
    rows = []
    for row in found.ceilings:
        clock = float(row.get("clock", math.nan))
        derived = derived_peaks(spec, clock=clock).get(row["name"], math.nan) if spec and clock == clock else math.nan
        sheet = (
            spec.bandwidth
            if spec and row["name"].startswith("dram")
            else (spec.peaks.get(row["name"], math.nan) if spec else math.nan)
        )
        rows.append(_row(row, derived, sheet))
    head = [
        "ceiling",
        "measured",
        "derived",
        "datasheet",
        "of datasheet",
        "spread",
        "SM clock",
        "power",
        "variant",
    ]
    lines = [
        f"{device.get('name', 'unknown device')}, measured {found.created} ({_age(found.age)} ago)",
        terminal_table(Table(head, rows, (0, 0, 3, 2, 1, 4, 5, 5, 6))),
    ]
    lines += [f"refused: {reason}" for reason in found.refused]
    if spec is None:
        lines.append("this device is not in devices.toml: measured ceilings alone")
    return "\n".join(lines)


def _row(row: dict[str, Any], derived: float, sheet: float) -> list[str]:
    from profkit.report import units
    from roofline.ceilings import UNITS

    unit = UNITS[row["kind"]]
    peak = float(row["peak"])
    power = float(row.get("power", math.nan))
    return [
        row["name"],
        units.text(peak, unit),
        units.text(derived, unit),
        units.text(sheet, unit),
        units.percent(peak / sheet),
        units.percent(float(row.get("spread", math.nan))),
        units.text(float(row.get("clock", math.nan)), "Hz"),
        f"{power:.0f} W" if power == power else units.MISSING,
        str(row.get("variant", "")),
    ]


def _age(seconds: float) -> str:
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
