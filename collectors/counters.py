"""The one table of counters: logical name -> the metrics of Nsight Compute, per chip.

The `--metrics` list of a recording, the columns of the launches frame and the documentation follow from
COUNTERS. To add a counter, add one row. The first recipe of a row that fits the chip is what a recording
asks for; those with ask=False compute the same from what other people's recordings (sets, older versions)
hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from collectors.errors import CollectError
from collectors.ncu_metrics import (
    DRAM_CHIPS,
    DRAM_CLOCK,
    L2_CLOCK,
    SM_CLOCK,
    TIME,
    dense_peak,
    dram,
    fma_peak,
    fp32,
    instructions,
    tensor,
    tensor_peak,
)
from collectors.recipes import Column, Recipe, capability, one, product, total


@dataclass(frozen=True)
class Counter:
    """A logical counter.

    unit: SI, "1" for fractions and plain numbers. group: what is collected together (sets and passes go by
    it). kind: how launches combine: "sum" adds up, "mean" is averaged with the time as weight, "fact"
    takes the
    largest.
    """

    name: str
    unit: str
    doc: str
    ncu: tuple[Recipe, ...]
    group: str
    kind: str


def _row(group: str, kind: str, name: str, unit: str, doc: str, *ncu: Recipe) -> Counter:
    return Counter(name, unit, doc, ncu, group, kind)


# fmt: off
def _memory() -> Iterator[Counter]:
    def traffic(name: str, doc: str, *ncu: Recipe) -> Counter:
        return _row("base", "sum", name, "B", doc, *ncu)

    yield _row("base", "sum", "time", "s", "GPU time of the launch, begin to end.",
               one(TIME), one("gpu__time_duration.avg", ask=False))
    yield traffic("dram_bytes", "Traffic to and from DRAM; writes still in L2 at the end are missing.",
                  one("dram__bytes.sum", chips=DRAM_CHIPS),
                  total({"dram__bytes_read.sum": 1.0, "dram__bytes_write.sum": 1.0}, ask=False),
                  total({"dram__bytes_op_read.sum": 1.0, "dram__bytes_op_write.sum": 1.0}, ask=False),
                  product(1.0, "dram__bytes.sum.per_second", TIME, ask=False),
                  total({"dram__sectors_read.sum": 32.0, "dram__sectors_write.sum": 32.0}, ask=False))
    yield traffic("dram_read", "Bytes read from DRAM.", *dram("read"))
    yield traffic("dram_write", "Bytes written to DRAM by the end of the launch.", *dram("write"))
    yield traffic("l2_bytes", "Bytes asked of L2 (lts__t_bytes); ncu's chart counts its port to the SMs.",
                  one("lts__t_bytes.sum"),
                  product(1.0, "lts__t_bytes.sum.per_second", TIME, ask=False),
                  # Before the sectors: charts record this with its own peak, which is another than that of lts__t.
                  one("lts__lts2xbar_cycles_active.sum", 32.0, ask=False),
                  product(32.0, "lts__lts2xbar_cycles_active.sum.per_second", TIME, ask=False),
                  one("lts__t_sectors.sum", 32.0, ask=False),
                  product(32.0, "lts__t_sectors.sum.per_second", TIME, ask=False))
    yield traffic("l2_write", "Bytes the SMs wrote to L2; less dram_write, what is still there at the end.",
                  one("lts__t_sectors_srcunit_tex_op_write.sum", 32.0))
    yield traffic("l1_bytes", "Bytes asked of L1 (l1tex__t_bytes), cp.async and TMA included.",
                  one("l1tex__t_bytes.sum"), product(1.0, "l1tex__t_bytes.sum.per_second", TIME, ask=False))
    yield _row("hits", "mean", "l2_hit_rate", "1", "Share of L2 sector lookups that hit.",
               one("lts__t_sector_hit_rate.pct", 0.01))
    yield _row("hits", "mean", "l1_hit_rate", "1", "Share of L1 sector lookups that hit.",
               one("l1tex__t_sector_hit_rate.pct", 0.01))


def _arithmetic() -> Iterator[Counter]:
    for op in ("add", "mul", "fma"):
        yield _row("fp64", "sum", f"inst_fp64_{op}", "inst", f"fp64 {op}: thread instructions.",
                   *instructions({f"d{op}": 1.0}))
    yield _row("fp64", "sum", "flop_fp64", "FLOP", "add + mul + 2 fma on the fp64 pipe (tensor apart).",
               *instructions({"dadd": 1.0, "dmul": 1.0, "dfma": 2.0}))
    for op in ("add", "mul", "fma"):
        yield _row("fp32", "sum", f"inst_fp32_{op}", "inst",
                   f"fp32 {op}: thread instructions; a packed one (10.0, 10.3) counts twice.",
                   *fp32({op: 1.0}))
    yield _row("fp32", "sum", "flop_fp32", "FLOP", "add + mul + 2 fma on the CUDA cores, packed included.",
               *fp32({"add": 1.0, "mul": 1.0, "fma": 2.0}))
    for op in ("add", "mul", "fma"):
        yield _row("fp16", "sum", f"inst_fp16_{op}", "inst",
                   f"fp16 and bf16 {op}: thread instructions, packed or not.", *instructions({f"h{op}": 1.0}))
    yield _row("fp16", "sum", "flop_fp16", "FLOP",
               "2 add + 2 mul + 4 fma: every half instruction taken as packed. The counter cannot tell: "
               "scalar half code reads twice too high, and compilers use HFMA2 for constants in fp32 code.",
               *instructions({"hadd": 2.0, "hmul": 2.0, "hfma": 4.0}))


F16, B16, T32, I8 = "src_fp16_dst_fp32", "src_bf16_dst_fp32", "src_tf32_dst_fp32", "src_int8"


def _tensor() -> Iterator[Counter]:
    def row(kind: str, doc: str, *ncu: Recipe) -> Counter:
        unit = "OP" if kind.startswith("int") else "FLOP"
        return _row("tensor", "sum", f"op_tensor_{kind}", unit, f"Tensor operations on {doc}.", *ncu)

    yield row("fp16", "fp16, 2 a multiply-add (7.5 counts bf16 and tf32 with them)",
              tensor("src_fp16_dst_fp16", F16, chips="7.0 8.0-8.9 10.0-"), tensor("src_fp16", chips="9.0"),
              tensor("src_fp16_dst_fp16", "src_fp16_bf16_tf32_dst_fp32", chips="7.5"))
    yield row("bf16", "bf16", tensor(B16, chips="8.0-"))
    yield row("tf32", "tf32", tensor(T32, chips="8.0-"))
    yield row("fp8", "fp8 (10.0 and 11.0 count fp6 and fp4 of the same instructions with them)",
              tensor("src_fp8", chips="8.9-9.0"),
              tensor("src_fp8_dst_fp16", "src_fp8_dst_fp32", chips="10.3 12.0-"),
              tensor("src_fp4_fp6_fp8_dst_fp16", "src_fp4_fp6_fp8_dst_fp32", chips="10.0 11.0"))
    yield row("int8", "int8", tensor(I8, chips="7.5-"))
    yield row("fp64", "fp64", tensor("src_fp64", chips="8.0-"))
    yield row("fp6", "fp6 and fp4 of the mixed path",
              tensor("src_fp4_fp6_dst_fp16", "src_fp4_fp6_dst_fp32", chips="10.3 12.0-"))
    yield row("fp4", "block-scaled fp4", tensor("src_fp4_dst_fp32", chips="10.0-"))
    yield row("int4", "int4", tensor("src_int4", chips="7.5-8.9"))


def _clocks() -> Iterator[Counter]:
    def clock(name: str, *ncu: Recipe) -> Counter:
        return _row("base", "mean", f"{name}_clock", "Hz", f"{name.upper()} clock during the launch.", *ncu)

    yield clock("sm", one(SM_CLOCK), one("smsp__cycles_elapsed.avg.per_second", ask=False),
                one("gpc__cycles_elapsed.avg.per_second", ask=False))
    yield clock("dram", one(DRAM_CLOCK, chips=DRAM_CHIPS))
    yield clock("l2", one(L2_CLOCK))
    yield _row("base", "mean", "peak_dram_bw", "B/s", "DRAM bandwidth at the clock of the run.",
               product(1.0, "dram__bytes.sum.peak_sustained", DRAM_CLOCK, chips=DRAM_CHIPS),
               product(250.0, "device__attribute_memory_clock_rate",
                       "device__attribute_global_memory_bus_width",
                       chips=DRAM_CHIPS, ask=False))
    yield _row("base", "mean", "peak_l2_bw", "B/s", "L2 bandwidth at the clock of the run.",
               product(1.0, "lts__t_bytes.sum.peak_sustained", L2_CLOCK),
               product(32.0, "lts__lts2xbar_cycles_active.sum.peak_sustained", L2_CLOCK, ask=False))
    yield _row("base", "mean", "peak_l1_bw", "B/s", "L1 bandwidth at the SM clock of the run.",
               product(1.0, "l1tex__t_bytes.sum.peak_sustained", SM_CLOCK))


def _peaks() -> Iterator[Counter]:
    def peak(kind: str, doc: str, *ncu: Recipe, group: str = "peak") -> Counter:
        unit = "OP/s" if kind.endswith("int8") else "FLOP/s"
        return _row(group, "mean", f"peak_{kind}", unit, f"{doc} at the SM clock of the run.", *ncu)

    yield peak("fp64", "2 fma a lane and cycle, fp64,", fma_peak("dfma", 2.0), group="fp64")
    yield peak("fp32", "2 fma a lane and cycle, fp32,", fma_peak("ffma", 2.0), group="fp32")
    yield peak("fp16", "4 fma a lane and cycle, packed half,", fma_peak("hfma", 4.0), group="fp16")
    yield peak("tensor_fp16", "Dense tensor peak, fp16,", tensor_peak(F16, "7.0"),
               tensor_peak("src_fp16_bf16_tf32_dst_fp32", "7.5"), *dense_peak(F16, hopper="hgmma_src_fp16"))
    yield peak("tensor_bf16", "Dense tensor peak, bf16,", *dense_peak(B16, hopper=f"hgmma_{B16}"))
    yield peak("tensor_tf32", "Dense tensor peak, tf32,", *dense_peak(T32, hopper=f"hgmma_{T32}"))
    yield peak("tensor_fp8", "Dense tensor peak, fp8,", tensor_peak("src_fp8_sparsity_off", "8.9-9.0"),
               tensor_peak("op_utcqmma_src_fp4_fp6_fp8_dst_fp32_sparsity_off", "10.0 11.0"),
               tensor_peak("op_utcqmma_src_fp8_dst_fp32_sparsity_off", "10.3"),
               tensor_peak("src_fp8_dst_fp32_sparsity_off", "12.0-12.1"))
    yield peak("tensor_int8", "Dense tensor peak, int8,", tensor_peak(I8, "7.5"),
               *dense_peak(I8, hopper=f"igmma_{I8}", unit="imma", blackwell="utcimma"))
    yield peak("tensor_fp64", "Tensor peak, fp64,", tensor_peak("src_fp64", "8.0-"))
    yield peak("tensor_fp4", "Dense tensor peak, fp4,",
               tensor_peak("op_utcomma_src_fp4_dst_fp32_sparsity_off", "10.0-11.0"),
               tensor_peak("src_fp4_dst_fp32_sparsity_off", "12.0-12.1"))
    mma = {"fp16": f"hmma_{F16}", "bf16": f"hmma_{B16}", "tf32": f"hmma_{T32}", "int8": f"imma_{I8}"}
    for kind, path in mma.items():
        yield peak(f"mma_{kind}", f"Dense peak of mma.sync code, {kind} (two thirds of wgmma on 9.0),",
                   tensor_peak(f"op_{path}_sparsity_off", "9.0-11.0"))


def _launch() -> Iterator[Counter]:
    def fact(name: str, unit: str, doc: str, *ncu: Recipe) -> Counter:
        return _row("launch", "fact", name, unit, doc, *ncu)

    shared = "launch__shared_mem_per_block"
    yield _row("occupancy", "mean", "occupancy", "1", "Achieved occupancy: share of an SM's warps.",
               one("sm__warps_active.avg.pct_of_peak_sustained_active", 0.01))
    yield fact("occupancy_limit", "1", "Theoretical occupancy, by registers, shared memory and block size.",
               one("sm__maximum_warps_per_active_cycle_pct", 0.01))
    yield fact("registers", "1", "Registers a thread.", one("launch__registers_per_thread"))
    yield fact("shared_memory", "B", "Shared memory a block: static, dynamic and the driver's.", one(shared),
               total({f"{shared}_{part}": 1.0 for part in ("static", "dynamic", "driver")}, ask=False))
    yield fact("waves", "1", "Waves of blocks an SM.", one("launch__waves_per_multiprocessor"))
    yield fact("threads", "1", "Threads launched.", one("launch__thread_count"))
    yield fact("blocks", "1", "Blocks launched.", one("launch__grid_size"))
    yield fact("block_size", "1", "Threads a block.", one("launch__block_size"))
    yield fact("sm_count", "1", "SMs of the device.", one("launch__sm_count", ask=False),
               one("device__attribute_multiprocessor_count", ask=False))
    for limit in ("registers", "shared_mem", "warps", "blocks"):
        yield fact(f"limit_{limit}", "1", f"Blocks an SM by its {limit.replace('_mem', ' memory')}.",
                   one(f"launch__occupancy_limit_{limit}"))
    yield fact("passes", "1", "Times ncu ran the launch.", one("profiler__replayer_passes", ask=False))


STALLS = {
    "barrier": "waiting for other warps at a barrier",
    "branch_resolving": "waiting for a branch target",
    "dispatch_stall": "held back by the dispatcher",
    "drain": "waiting at exit for stores to drain",
    "imc_miss": "waiting for the constant cache",
    "lg_throttle": "waiting for the queue of global and local memory",
    "long_scoreboard": "waiting for global, local, texture or surface memory",
    "math_pipe_throttle": "waiting for a busy arithmetic pipe",
    "membar": "waiting at a memory fence",
    "mio_throttle": "waiting for the queue of shared memory and special instructions",
    "misc": "waiting for another reason",
    "no_instruction": "waiting for instructions to be fetched",
    "not_selected": "ready while another warp was chosen",
    "selected": "issuing",
    "short_scoreboard": "waiting for shared memory or special functions",
    "sleeping": "asleep on request",
    "tex_throttle": "waiting for the texture queue",
    "wait": "waiting for a fixed latency",
}


def _deep() -> Iterator[Counter]:
    def count(group: str, name: str, doc: str, metric: str) -> Counter:
        return _row(group, "sum", name, "1", doc, one(f"{metric}.sum"))

    def ratio(group: str, name: str, doc: str, *metrics: str) -> Counter:
        return _row(group, "mean", name, "1", doc, *(one(metric) for metric in metrics))

    lsu = "pipe_lsu_mem"
    for op, name in (("ld", "load"), ("st", "store")):
        for what in ("sectors", "requests"):
            yield count("access", f"global_{name}_{what}", f"L1 {what} of global {name}s.",
                        f"l1tex__t_{what}_{lsu}_global_op_{op}")
        yield count("shared", f"shared_{name}_conflicts", f"Extra wavefronts of shared {name}s: conflicts.",
                    f"l1tex__data_bank_conflicts_{lsu}_shared_op_{op}")
        yield count("shared", f"shared_{name}_wavefronts", f"Wavefronts of shared {name}s.",
                    f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}")
        yield count("local", f"local_{name}_sectors", f"L1 sectors of local {name}s: spills, mostly.",
                    f"l1tex__t_sectors_{lsu}_local_op_{op}")
    yield count("atomic", "atomic_requests", "Global atomics that return a value.",
                f"l1tex__t_requests_{lsu}_global_op_atom")
    yield count("atomic", "reduction_requests", "Global atomics that do not.",
                f"l1tex__t_requests_{lsu}_global_op_red")
    yield count("issue", "inst_executed", "Warp instructions executed.", "smsp__inst_executed")
    yield ratio("issue", "issue_active", "Share of a scheduler's active cycles that issued an instruction.",
                "smsp__issue_active.avg.per_cycle_active")
    yield ratio("issue", "active_warps", "Warps resident a scheduler.",
                "smsp__warps_active.avg.per_cycle_active")
    yield ratio("issue", "eligible_warps", "Warps ready to issue a scheduler.",
                "smsp__warps_eligible.avg.per_cycle_active")
    yield ratio("issue", "threads_per_inst", "Threads active in a warp instruction, of 32.",
                "smsp__thread_inst_executed_per_inst_executed.ratio")
    yield ratio("issue", "warp_latency", "Cycles a warp spends between two of its instructions.",
                "smsp__average_warp_latency_per_inst_issued.ratio")
    for reason, doc in STALLS.items():
        yield ratio("stall", f"stall_{reason}", f"Of warp_latency, cycles {doc}.",
                    f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio")


def _speed_of_light() -> Iterator[Counter]:
    for name, metric in (("compute", "sm__throughput"), ("memory", "gpu__compute_memory_throughput"),
                         ("dram", "gpu__dram_throughput")):
        yield _row("light", "mean", f"{name}_throughput", "1", f"ncu's busiest {name} part, share of peak.",
                   one(f"{metric}.avg.pct_of_peak_sustained_elapsed", 0.01))

# fmt: on


def _table() -> dict[str, Counter]:
    parts = (_memory, _arithmetic, _tensor, _clocks, _peaks, _launch, _deep, _speed_of_light)
    rows = [row for part in parts for row in part()]
    table = {row.name: row for row in rows}
    if len(table) != len(rows):
        raise ValueError("a counter is in the table twice")
    return table


COUNTERS: Mapping[str, Counter] = _table()

_ROOFLINE = ("base", "launch", "occupancy", "fp32", "fp64", "fp16", "tensor", "peak")
_SETS = {
    "default": _ROOFLINE,
    "memory": ("base", "launch", "occupancy", "hits", "access"),
    "deep": (
        "base",
        "launch",
        "occupancy",
        "fp32",
        "hits",
        "access",
        "shared",
        "local",
        "atomic",
        "issue",
        "stall",
    ),
}


def counter_set(name: str) -> tuple[str, ...]:
    """The counters of a set: "default" (rooflines), "memory" or "deep"; raises CollectError on another
    name.
    """
    if name not in _SETS:
        raise CollectError(f"no counter set {name!r}", fix=f"use one of {', '.join(_SETS)}")
    return tuple(row.name for row in COUNTERS.values() if row.group in _SETS[name])


def metrics_for(names: Iterable[str], cc: str) -> tuple[str, ...]:
    """The `--metrics` list for these counters on a chip, each metric once; what the chip lacks is left out.

    cc: compute capability, "9.0". Raises CollectError on an unknown counter or an unreadable cc.
    """
    _check_chip(cc)
    recipes = [recipe for name in names for recipe in _counter(name).ncu if recipe.ask and recipe.covers(cc)]
    return tuple(dict.fromkeys(metric for recipe in recipes for metric in recipe.metrics))


def metric_names(names: Iterable[str] = COUNTERS) -> frozenset[str]:
    """Every metric any recipe of these counters may use: the columns of a file worth reading."""
    return frozenset(metric for name in names for recipe in _counter(name).ncu for metric in recipe.metrics)


def planned_passes(names: Iterable[str], cc: str) -> int | None:
    """How often ncu will run a launch to collect these counters; None where nothing was measured.

    Measured on CC 9.0 with ncu 2025.3: bytes, clocks, bandwidth peaks and launch facts 1; with fp32 3;
    bytes with six tensor paths 7; with fp16 and fp64 as well 8; occupancy no more. The formula gives those
    figures; another mix, or another chip from 8.0 to 10.3, is an estimate. None for hit rates, accesses,
    stalls and throughputs, which were never measured, and for older chips.
    """
    _check_chip(cc)
    counters = [_counter(name) for name in dict.fromkeys(names)]
    groups = {counter.group for counter in counters}
    if not groups.issubset(_ROOFLINE) or not 80 <= capability(cc) <= 103:
        return None
    paths = len([one for one in counters if one.group == "tensor" and metrics_for([one.name], cc)])
    cores = not groups.isdisjoint({"fp32", "fp64", "fp16"})
    return 1 + max(paths, 2 * cores) + (1 if paths and cores else 0)


def evaluate(values: Mapping[str, float], cc: str) -> dict[str, float]:
    """Every counter from the metrics of one launch (the tool's names, SI base units); NaN = not collected.

    cc: compute capability; "" tries the recipes of every chip.
    """
    columns = {name: np.array([value], dtype=np.float64) for name, value in values.items()}
    found = evaluate_columns(columns, cc)
    return {name: float(found[name][0]) if name in found else float("nan") for name in COUNTERS}


def evaluate_columns(columns: Mapping[str, Column], cc: str) -> dict[str, Column]:
    """As evaluate, for arrays over launches of one chip; a counter none of whose recipes has its metrics
    is left out.

    Where a recipe gives NaN for a launch, the next one is tried for that launch.
    """
    found: dict[str, Column] = {}
    for name, counter in COUNTERS.items():
        for recipe in counter.ncu:
            if not recipe.covers(cc) or any(metric not in columns for metric in recipe.metrics):
                continue
            value = recipe.value(columns)
            found[name] = value if name not in found else np.where(np.isnan(found[name]), value, found[name])
    return found


def _counter(name: str) -> Counter:
    if name not in COUNTERS:
        raise CollectError(f"no counter {name!r}", fix="see the table in collectors/counters.py")
    return COUNTERS[name]


def _check_chip(cc: str) -> None:
    try:
        capability(cc)
    except ValueError as error:
        raise CollectError(str(error)) from error
