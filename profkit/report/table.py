"""The verdict's table: what a person wants to know of each implementation, once, for every renderer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profkit.report import units
from profkit.run import Impl, Run

NAN = math.nan


@dataclass(frozen=True)
class Table:
    """Headers and cells as text; the first column is the implementation."""

    head: list[str]
    rows: list[list[str]]


def verdict_table(run: Run) -> Table:
    """Correct?, speedup with its interval, time, FLOP/s, DRAM, intensity, % of attainable, bound by.

    One unit a column. An implementation that was not measured has its status and dashes.
    """
    metrics = run.metrics.set_index("impl") if len(run.metrics) else pd.DataFrame()
    impls = [impl for impl in run.manifest.impls if impl.status != "skipped"]
    rows = [metrics.loc[impl.name] if impl.name in metrics.index else None for impl in impls]
    columns = [
        ("", [impl.name for impl in impls]),
        ("correct", [correctness(impl) for impl in impls]),
        ("speedup", [speedup(row) for row in rows]),
        _unit_column("time", rows, "time", "s"),
        _unit_column("achieved", rows, "achieved_flops", "FLOP/s"),
        _unit_column("DRAM", rows, "dram_bandwidth", "B/s"),
        ("of peak", _cells(rows, "dram_fraction", units.percent)),
        ("FLOP/B", _cells(rows, "intensity", units.digits)),
        ("of attainable", _cells(rows, "attainable_fraction", units.percent)),
        ("bound by", [str(row["bound_by"]) if row is not None else units.MISSING for row in rows]),
    ]
    head = [name for name, _ in columns]
    return Table(head, [list(cells) for cells in zip(*(cells for _, cells in columns), strict=True)])


def _unit_column(title: str, rows: list[Any], name: str, unit: str) -> tuple[str, list[str]]:
    values = [float(row[name]) if row is not None else NAN for row in rows]
    label, cells = units.column(values, unit)
    return f"{title} [{label}]", cells


def _cells(rows: list[Any], name: str, render: Callable[[float], str]) -> list[str]:
    return [render(float(row[name])) if row is not None else units.MISSING for row in rows]


def correctness(impl: Impl) -> str:
    """ "yes (5/5)", the name of what is wrong, or "reference"."""
    if impl.role == "reference":
        return "reference" if impl.ok else impl.status
    if impl.role == "callable":
        return "not checked"
    passed = sum(check.passed for check in impl.checks)
    return f"yes ({passed}/{len(impl.checks)})" if impl.ok else impl.status


def speedup(row: Any) -> str:
    """ "1.23x [1.21, 1.25]", or a dash for the reference and the unmeasured."""
    if row is None or not math.isfinite(float(row["speedup"])) or row["verdict"] in ("", "reference"):
        return units.MISSING
    value, low, high = (float(row[name]) for name in ("speedup", "speedup_low", "speedup_high"))
    return f"{value:.3g}x [{low:.3g}, {high:.3g}]"


def verdict(run: Run) -> str:
    """The run in one sentence per candidate."""
    metrics = run.metrics.set_index("impl") if len(run.metrics) else pd.DataFrame()
    reference = run.manifest.reference
    if reference is not None and not reference.ok:
        return f"the reference itself failed ({reference.status}): {reference.reason}"
    if run.manifest.sample.kind == "callable":
        return (
            "\n".join(_unchecked(str(name), metrics.loc[name]) for name in metrics.index)
            or "nothing was timed"
        )
    words = []
    for impl in run.manifest.candidates:
        if impl.status == "skipped":
            continue
        if not impl.ok:
            words.append(f"{impl.name}: {impl.status}: {impl.reason}")
        elif impl.name in metrics.index:
            words.append(_sentence(impl.name, metrics.loc[impl.name]))
        else:
            words.append(f"{impl.name}: correct, but not timed")
    return "\n".join(words) or "no candidate could run on this device"


def _unchecked(name: str, row: Any) -> str:
    """How long a callable takes, how far from the floor, bound by what."""
    said = [f"{name}: {units.text(float(row['time']), 's')}"]
    ratio = float(row["floor_ratio"])
    said += [f"{ratio:.3g}x the floor of the algorithm"] if math.isfinite(ratio) else []
    said += [f"bound by {row['bound_by']}"] if str(row["bound_by"]) not in ("", "unknown") else []
    return ", ".join(said)


def _sentence(name: str, row: Any) -> str:
    """Correct, how fast, how far from the floor, bound by what."""
    value = float(row["speedup"])
    pace = {
        "faster": f"{value:.3g}x as fast as the reference", "slower": f"slower than the reference ({value:.3g}x)",
        "same": "as fast as the reference", "undecided": f"speed undecided ({value:.3g}x, interval too wide)",
    }.get(str(row["verdict"]), f"{value:.3g}x")  # fmt: skip
    said = [f"{name}: correct", pace, f"{units.text(float(row['time']), 's')}"]
    ratio = float(row["floor_ratio"])
    if math.isfinite(ratio):
        said.append(f"{ratio:.3g}x the floor of the algorithm")
    if str(row["bound_by"]) not in ("", "unknown"):
        said.append(f"bound by {row['bound_by']}")
    return ", ".join(said)


def counters_line(run: Run) -> str:
    """One line that every renderer shows beside numbers when counters are missing; "" when they are there."""
    counters = run.manifest.counters
    if counters.state == "collected":
        return ""
    return f"hardware counters are missing: {counters.why}; FLOP and bytes are the work model's, not measured"


def uncounted_line(run: Run) -> str:
    """One line about implementations whose FLOP or bytes are not the hardware's although others' are."""
    if run.manifest.counters.state != "collected" or not len(run.metrics):
        return ""
    sources = [(str(r["impl"]), str(r["work_source"])) for r in run.metrics.to_dict("records")]
    named = [f"{impl} ({source or 'unknown'})" for impl, source in sources if source != "counted"]
    return f"not counted by the hardware, FLOP or bytes of: {', '.join(named)}" if named else ""


def timing_line(run: Run) -> str:
    """How the times were taken."""
    timing = run.manifest.timing
    if not timing.method:
        return "nothing was timed"
    method = run.analysis.method or timing.method
    rows = run.metrics[run.metrics["n"] > 0] if len(run.metrics) else run.metrics
    half = [(r["time_high"] - r["time_low"]) / 2 / r["time"] for r in rows.to_dict("records")]
    reached = units.percent(max(half)) if half and math.isfinite(max(half)) else "an unknown share"
    flushed = f"{timing.l2} cache" + (
        f" ({units.text(timing.flush_bytes, 'B')} flushed before each call)" if timing.flush_bytes else ""
    )
    return (
        f"times: median of {int(rows['n'].min()) if len(rows) else 0} or more, {timing.notes.get(method, timing.note)}; {flushed}; "
        f"interleaved in random order; medians known to +-{reached}"
    )
