"""ncu's details page and summaries: a row per metric of a launch or kernel, no rules.

It prints two decimals of a scaled unit, so every frame from it has a caveat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import pandas as pd

from collectors.ncu.launches import Cells, Launches, identified
from collectors.ncu.text import SUMMARY, Row, Scan
from collectors.numbers import scale

_ELAPSED = "avg.pct_of_peak_sustained_elapsed"

_LABELS = {
    "Duration": "gpu__time_duration.sum",
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
    "Memory Frequency": "dram__cycles_elapsed.avg.per_second",
    "SOL Memory": f"gpu__compute_memory_throughput.{_ELAPSED}",
    "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
    "Compute (SM) Throughput": f"sm__throughput.{_ELAPSED}",
    "Compute (SM) [%]": f"sm__throughput.{_ELAPSED}",
    "SOL SM": f"sm__throughput.{_ELAPSED}",
    "SM [%]": f"sm__throughput.{_ELAPSED}",
    "Memory [%]": f"gpu__compute_memory_throughput.{_ELAPSED}",
    "DRAM Throughput": f"gpu__dram_throughput.{_ELAPSED}",
    "SOL DRAM": f"gpu__dram_throughput.{_ELAPSED}",
    "SOL FB": f"gpu__dram_throughput.{_ELAPSED}",
    "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "SOL TEX": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "SOL L1/TEX Cache": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "L2 Cache Throughput": f"lts__throughput.{_ELAPSED}",
    "SOL L2": f"lts__throughput.{_ELAPSED}",
    "SOL L2 Cache": f"lts__throughput.{_ELAPSED}",
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "L1 Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
    "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
    "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
    "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
    "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "Executed Instructions": "smsp__inst_executed.sum",
    "Block Size": "launch__block_size",
    "Grid Size": "launch__grid_size",
    "Registers Per Thread": "launch__registers_per_thread",
    "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Threads": "launch__thread_count",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "# SMs": "launch__sm_count",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
"""Labels of ncu 2019 to 2025 -> metrics, from section files and reports."""

_ROUNDED = (
    "the details page rounds to two decimals of a scaled unit",
    "up to 0.5 % of a value, more where it prints 0.00",
    "export the same report with --page raw --print-units base",
)
_AVERAGED = (
    "a summary of ncu: times and counters are averages over the launches of a kernel",
    "launches that differ are one row",
    "export without --print-summary: `ncu --import REPORT --page raw --csv`",
)
_Key = tuple[int | str, ...]


def detailed_launches(scan: Scan, rows: Iterable[Row], wanted: Callable[[str], bool]) -> Launches:
    """Launches of the details tables of a file; wanted: selects metrics."""
    cells = Cells(scan)
    cells.caveat(*_ROUNDED)
    summed = False
    found: dict[_Key, dict[str, str]] = {}
    values: dict[str, dict[_Key, tuple[str, float]]] = {}
    for row in rows:
        one: dict[str, str] = {}
        for name, cell in zip(row.table.header, row.fields(), strict=False):
            one.setdefault(name, cell)
        key: _Key
        if row.table.page == SUMMARY:
            summed = True
            key = (row.table.line, *row.fields()[: row.table.header.index("Invocations")])
            one |= {"ID": str(len(found)), "Metric Value": one["Average"], **_ranges(one)}
        else:
            key = (row.table.line, one.get("Process ID", ""), one["ID"])
        found.setdefault(key, one)
        label = one.get("Metric Name", "")
        if not label or one.get("Rule Name"):
            continue
        cells.evidence.feed(one.get("Metric Value", "").strip())
        unit = one.get("Metric Unit", "")
        metric = _metric_of(label, unit, one.get("Body Item Label", ""))
        metric = metric or f"{one.get('Section Name', '')}/{label}"
        if not wanted(metric) or metric.startswith("derived__"):
            cells.untaken[metric] = None
            continue
        factor = scale(unit)
        value = one.get("Metric Value", ""), cells.unit_unknown(unit, metric) if factor is None else factor
        values.setdefault(metric, {}).setdefault(key, value)
    columns = {}
    for metric, known in values.items():
        texts, factors = zip(*(known.get(key, ("", 1.0)) for key in found), strict=True)
        columns[metric] = list(texts), list(factors)
    if summed:
        cells.caveat(*_AVERAGED)
    if found:
        cells.add(identified(pd.DataFrame(list(found.values())).fillna(""), cells.path), columns)
    return cells.launches()


def _ranges(cells: Mapping[str, str]) -> dict[str, str]:
    """Ranges of a row of --print-summary per-nvtx, each with its domain."""
    ranges = next((cell for name, cell in cells.items() if name.startswith("Range:")), "")
    domain = cells.get("Domain", "")
    return {"Push/Pop_Range": re.sub(r'^[^"]*"|  "', lambda quote: f"{quote[0]}{domain}:", ranges)}


def _metric_of(label: str, unit: str, body: str = "") -> str:
    """Metric of a label; "" if unknown.

    unit: as printed. body: the Body Item Label of `--print-details all`, where labels are reused.
    """
    if "__" in label:
        return label if " " not in label else ""
    if body:
        return ""
    if label == "Memory Throughput":
        return f"gpu__compute_memory_throughput.{_ELAPSED}" if unit == "%" else "dram__bytes.sum.per_second"
    return _LABELS.get(label, "")
