"""profkit ceilings: what this GPU can really do, measured."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import click

from profkit.cli import options as shared
from profkit.errors import CannotProfileError
from profkit.launch.gpu import identity
from profkit.record import ceilings
from profkit.record.ceilings import Measured
from profkit.report import units
from profkit.report.layout import Column, Table, terminal_table
from roofline.ceilings import UNITS
from roofline.device import DeviceSpec, derived_peaks, find_spec


@click.command("ceilings", short_help="Measure this device's ceilings.")
@click.option("--device", "kind", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option("--list", "only_list", is_flag=True, help="Show what is known; measure nothing.")
@shared.json_
def command(kind: str, only_list: bool, as_json: bool) -> int:
    """Measure DRAM, cache and arithmetic ceilings of this GPU (half a minute on an H200) and keep them for later runs.

    \b
    profkit ceilings                 once a device and driver
    profkit ceilings --list          what is kept of this one
    profkit ceilings --device cpu    again; the first run on a quiet CPU keeps its own

    The table shows measured, derived (SMs x rate x the clock of the measurement) and datasheet side by side.
    """
    if only_list:
        found = _known(kind)
        if found is None:
            click.echo("no measured ceilings for this device; `profkit ceilings` measures them", err=True)
            return 1
    else:
        click.echo(f"  measuring; given up where it takes longer than {ceilings.LIMIT:g} s", err=True)
        found = ceilings.measure(kind)
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
            f"{none}a CPU's ceilings stand in the runs that they were measured for",
            fix="`profkit ceilings --device cpu` measures and keeps them",
        )
    return ceilings.known(device)


def _table(found: Measured) -> str:
    device, rows = found.device, found.ceilings
    spec = find_spec(str(device.get("name", "")), cc=device.get("cc"), sms=device.get("sms"))

    def texts(values: Iterable[float]) -> list[str]:
        return [units.text(value, UNITS[row["kind"]]) for row, value in zip(rows, values, strict=True)]

    peaks, spreads = [_figure(row, "peak") for row in rows], [_figure(row, "spread") for row in rows]
    clocks, powers = [_figure(row, "clock") for row in rows], [_figure(row, "power") for row in rows]
    sheets = [_sheet(spec, row["name"]) for row in rows]
    columns = [
        Column("ceiling", [row["name"] for row in rows]),
        Column("measured", texts(peaks)),
        Column("derived", texts(_derived(spec, row) for row in rows), 3),
        Column("datasheet", texts(sheets), 2),
        Column("of datasheet", [units.percent(peak / sheet) for peak, sheet in zip(peaks, sheets, strict=True)], 1),
        Column("spread", [units.percent(one) for one in spreads], 4),
        Column("SM clock", [units.text(one, "Hz") for one in clocks], 5),
        Column("power", [f"{one:.0f} W" if one == one else units.MISSING for one in powers], 5),
        Column("variant", [str(row.get("variant", "")) for row in rows], 6),
    ]
    lines = [
        f"{device.get('name', 'unknown device')}, measured {found.created} ({_age(found.age)} ago)",
        terminal_table(Table.of(columns)),
    ]
    lines += [f"refused: {reason}" for reason in found.refused]
    if spec is None:
        lines.append("this device is not in devices.toml: measured ceilings alone")
    return "\n".join(lines)


def _figure(row: dict[str, Any], name: str) -> float:
    return float(row.get(name, math.nan))


def _sheet(spec: DeviceSpec | None, name: str) -> float:
    """The datasheet's figure of a ceiling, NaN without one."""
    if spec is None:
        return math.nan
    return spec.bandwidth if name.startswith("dram") else spec.peaks.get(name, math.nan)


def _derived(spec: DeviceSpec | None, row: dict[str, Any]) -> float:
    """SMs x rate x the clock of the measurement."""
    clock = _figure(row, "clock")
    if spec is None or clock != clock:
        return math.nan
    return derived_peaks(spec, clock=clock).get(row["name"], math.nan)


def _age(seconds: float) -> str:
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
