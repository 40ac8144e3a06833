"""Label of ncu's details page -> name of the metric.

Labels changed over the years. Source: section files and reports of ncu 2020 to 2025.
"""

from __future__ import annotations

_ELAPSED = "avg.pct_of_peak_sustained_elapsed"

_ANY = {
    "Duration": "gpu__time_duration.sum",
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
    "SOL Memory": f"gpu__compute_memory_throughput.{_ELAPSED}",
    "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
    "Elapsed Cycles": "gpc__cycles_elapsed.max",
    "SM Active Cycles": "sm__cycles_active.avg",
    "Compute (SM) Throughput": f"sm__throughput.{_ELAPSED}",
    "Compute (SM) [%]": f"sm__throughput.{_ELAPSED}",
    "SOL SM": f"sm__throughput.{_ELAPSED}",
    "Memory [%]": f"gpu__compute_memory_throughput.{_ELAPSED}",
    "DRAM Throughput": f"gpu__dram_throughput.{_ELAPSED}",
    "SOL DRAM": f"gpu__dram_throughput.{_ELAPSED}",
    "SOL FB": f"gpu__dram_throughput.{_ELAPSED}",
    "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "SOL L1/TEX Cache": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "L2 Cache Throughput": f"lts__throughput.{_ELAPSED}",
    "SOL L2 Cache": f"lts__throughput.{_ELAPSED}",
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
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


def metric_of(label: str, unit: str, body: str = "") -> str:
    """The metric behind a label; "" where none is known.

    unit: as printed. body: the Body Item Label of `--print-details all`, where labels are reused.
    """
    if "__" in label:
        return label if " " not in label else ""
    if body:
        return ""
    if label == "Memory Throughput":
        return f"gpu__compute_memory_throughput.{_ELAPSED}" if unit == "%" else "dram__bytes.sum.per_second"
    return _ANY.get(label, "")
