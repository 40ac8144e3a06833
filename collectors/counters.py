"""Table of counters: logical name -> metrics of each vendor's tool, by chip.

The `--metrics` list of a recording, the columns of the launches frame and the documentation follow from COUNTERS.
A recording requests the first recipe for the chip; recipes with ask=False only serve foreign exports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from collectors.errors import CollectError
from collectors.recipes import (
    DRAM_CHIPS,
    DRAM_CLOCK,
    L2_CLOCK,
    SM_CLOCK,
    TIME,
    Column,
    Recipe,
    capability,
    dense_peak,
    dram,
    fma_peak,
    fp32,
    instructions,
    one,
    product,
    tensor,
    tensor_peak,
    total,
)


@dataclass(frozen=True)
class Counter:
    """A logical counter.

    unit: SI, "1" for fractions and plain numbers. recipes: by vendor (collectors.Format.vendor), () if its tool
    lacks the counter. group: counters collected together (for sets and passes). kind: how launches combine:
    "sum" adds up, "mean" is averaged with the time as weight, "fact" takes the largest.
    """

    name: str
    unit: str
    doc: str
    recipes: Mapping[str, tuple[Recipe, ...]]
    group: str
    kind: str


AMD: Mapping[str, tuple[Recipe, ...]] = {
    "dram_read": (one("FETCH_SIZE", 1024.0),),
    "dram_write": (one("WRITE_SIZE", 1024.0),),
    "l2_hit_rate": (one("L2CacheHit", 0.01),),
}
"""rocprof's counters with the same meaning; times and launch facts have their own columns.

Another vendor needs such a table, a column in `_row`, and a format with its `vendor`.
"""


def _row(group: str, kind: str, name: str, unit: str, doc: str, *nvidia: Recipe) -> Counter:
    return Counter(name, unit, doc, {"nvidia": nvidia, "amd": AMD.get(name, ())}, group, kind)


def _plain(table: str) -> Iterator[Counter]:
    """Rows of one metric on every chip: group, kind, name, unit, weight*metric, doc."""
    for line in table.strip().splitlines():
        group, kind, name, unit, metric, doc = line.split(maxsplit=5)
        weight, _, metric = metric.rpartition("*")
        yield _row(group, kind, name, unit, doc, one(metric, float(weight or 1)))


def _memory() -> Iterator[Counter]:
    def traffic(name: str, doc: str, *nvidia: Recipe) -> Counter:
        return _row("base", "sum", name, "B", doc, *nvidia)

    said = one(TIME), one("gpu__time_duration.avg", ask=False)
    yield _row("base", "sum", "time", "s", "GPU time of the launch, begin to end.", *said)
    yield traffic(
        "dram_bytes",
        "Traffic to and from DRAM; writes still in L2 at the end are missing.",
        one("dram__bytes.sum", chips=DRAM_CHIPS),
        total({"dram__bytes_read.sum": 1.0, "dram__bytes_write.sum": 1.0}, ask=False),
        total({"dram__bytes_op_read.sum": 1.0, "dram__bytes_op_write.sum": 1.0}, ask=False),
        product(1.0, "dram__bytes.sum.per_second", TIME, ask=False),
        total({"dram__sectors_read.sum": 32.0, "dram__sectors_write.sum": 32.0}, ask=False),
    )
    yield traffic("dram_read", "Bytes read from DRAM.", *dram("read"))
    yield traffic("dram_write", "Bytes written to DRAM by the end of the launch.", *dram("write"))
    yield traffic(
        "l2_bytes",
        "Bytes asked of L2 (lts__t_bytes); ncu's chart counts its port to the SMs.",
        one("lts__t_bytes.sum"),
        product(1.0, "lts__t_bytes.sum.per_second", TIME, ask=False),
        # Before the sectors: charts record this with its own peak, which is another than that of lts__t.
        one("lts__lts2xbar_cycles_active.sum", 32.0, ask=False),
        product(32.0, "lts__lts2xbar_cycles_active.sum.per_second", TIME, ask=False),
        one("lts__t_sectors.sum", 32.0, ask=False),
        product(32.0, "lts__t_sectors.sum.per_second", TIME, ask=False),
    )
    written = "Bytes the SMs wrote to L2; less dram_write, what is still there at the end."
    yield traffic("l2_write", written, one("lts__t_sectors_srcunit_tex_op_write.sum", 32.0))
    rate = product(1.0, "l1tex__t_bytes.sum.per_second", TIME, ask=False)
    asked = "Bytes asked of L1 (l1tex__t_bytes), cp.async and TMA included."
    yield traffic("l1_bytes", asked, one("l1tex__t_bytes.sum"), rate)
    yield from _plain("""
        hits mean l2_hit_rate 1 0.01*lts__t_sector_hit_rate.pct    Share of L2 sector lookups that hit.
        hits mean l1_hit_rate 1 0.01*l1tex__t_sector_hit_rate.pct  Share of L1 sector lookups that hit.
    """)


def _arithmetic() -> Iterator[Counter]:
    ops = ("add", "mul", "fma")
    for op in ops:
        said = f"fp64 {op}: thread instructions."
        yield _row("fp64", "sum", f"inst_fp64_{op}", "inst", said, *instructions({f"d{op}": 1.0}))
    said = "add + mul + 2 fma on the fp64 pipe (tensor apart)."
    yield _row("fp64", "sum", "flop_fp64", "FLOP", said, *instructions({"dadd": 1.0, "dmul": 1.0, "dfma": 2.0}))
    for op in ops:
        said = f"fp32 {op}: thread instructions; a packed one (10.0, 10.3) counts twice."
        yield _row("fp32", "sum", f"inst_fp32_{op}", "inst", said, *fp32({op: 1.0}))
    said = "add + mul + 2 fma on the CUDA cores, packed included."
    yield _row("fp32", "sum", "flop_fp32", "FLOP", said, *fp32({"add": 1.0, "mul": 1.0, "fma": 2.0}))
    for op in ops:
        said = f"fp16 and bf16 {op}: thread instructions, packed or not."
        yield _row("fp16", "sum", f"inst_fp16_{op}", "inst", said, *instructions({f"h{op}": 1.0}))
    said = (
        "2 add + 2 mul + 4 fma: every half instruction taken as packed. The counter cannot tell: "
        "scalar half code reads twice too high, and compilers use HFMA2 for constants in fp32 code."
    )
    yield _row("fp16", "sum", "flop_fp16", "FLOP", said, *instructions({"hadd": 2.0, "hmul": 2.0, "hfma": 4.0}))


F16, B16, T32, I8 = "src_fp16_dst_fp32", "src_bf16_dst_fp32", "src_tf32_dst_fp32", "src_int8"
_FP8, _FP6, _FP4 = "src_fp8_dst", "src_fp4_fp6_dst", "src_fp4_fp6_fp8_dst"


def _tensor() -> Iterator[Counter]:
    def row(kind: str, doc: str, *nvidia: Recipe) -> Counter:
        unit = "OP" if kind.startswith("int") else "FLOP"
        return _row("tensor", "sum", f"op_tensor_{kind}", unit, f"Tensor operations on {doc}.", *nvidia)

    yield row(
        "fp16",
        "fp16, 2 a multiply-add (7.5 counts bf16 and tf32 with them)",
        tensor("src_fp16_dst_fp16", F16, chips="7.0 8.0-8.9 10.0-"),
        tensor("src_fp16", chips="9.0"),
        tensor("src_fp16_dst_fp16", "src_fp16_bf16_tf32_dst_fp32", chips="7.5"),
    )
    yield row("bf16", "bf16", tensor(B16, chips="8.0-"))
    yield row("tf32", "tf32", tensor(T32, chips="8.0-"))
    yield row(
        "fp8",
        "fp8 (10.0 and 11.0 count fp6 and fp4 of the same instructions with them)",
        tensor("src_fp8", chips="8.9-9.0"),
        tensor(f"{_FP8}_fp16", f"{_FP8}_fp32", chips="10.3 12.0-"),
        tensor(f"{_FP4}_fp16", f"{_FP4}_fp32", chips="10.0 11.0"),
    )
    yield row("int8", "int8", tensor(I8, chips="7.5-"))
    yield row("fp64", "fp64", tensor("src_fp64", chips="8.0-"))
    yield row("fp6", "fp6 and fp4 of the mixed path", tensor(f"{_FP6}_fp16", f"{_FP6}_fp32", chips="10.3 12.0-"))
    yield row("fp4", "block-scaled fp4", tensor("src_fp4_dst_fp32", chips="10.0-"))
    yield row("int4", "int4", tensor("src_int4", chips="7.5-8.9"))


def _clocks() -> Iterator[Counter]:
    def clock(name: str, *nvidia: Recipe) -> Counter:
        return _row("base", "mean", f"{name}_clock", "Hz", f"{name.upper()} clock during the launch.", *nvidia)

    def bandwidth(name: str, doc: str, *nvidia: Recipe) -> Counter:
        return _row("base", "mean", f"peak_{name}_bw", "B/s", f"{doc} of the run.", *nvidia)

    others = [one(f"{unit}__cycles_elapsed.avg.per_second", ask=False) for unit in ("smsp", "gpc")]
    yield clock("sm", one(SM_CLOCK), *others)
    yield clock("dram", one(DRAM_CLOCK, chips=DRAM_CHIPS))
    yield clock("l2", one(L2_CLOCK))
    pins = ("device__attribute_memory_clock_rate", "device__attribute_global_memory_bus_width")
    yield bandwidth(
        "dram",
        "DRAM bandwidth at the clock",
        product(1.0, "dram__bytes.sum.peak_sustained", DRAM_CLOCK, chips=DRAM_CHIPS),
        product(250.0, *pins, chips=DRAM_CHIPS, ask=False),
    )
    port = product(32.0, "lts__lts2xbar_cycles_active.sum.peak_sustained", L2_CLOCK, ask=False)
    l2 = product(1.0, "lts__t_bytes.sum.peak_sustained", L2_CLOCK)
    yield bandwidth("l2", "L2 bandwidth at the clock", l2, port)
    l1 = product(1.0, "l1tex__t_bytes.sum.peak_sustained", SM_CLOCK)
    yield bandwidth("l1", "L1 bandwidth at the SM clock", l1)


def _peaks() -> Iterator[Counter]:
    def peak(kind: str, doc: str, *nvidia: Recipe, group: str = "peak") -> Counter:
        unit = "OP/s" if kind.endswith("int8") else "FLOP/s"
        return _row(group, "mean", f"peak_{kind}", unit, f"{doc} at the SM clock of the run.", *nvidia)

    yield peak("fp64", "2 fma a lane and cycle, fp64,", fma_peak("dfma", 2.0), group="fp64")
    yield peak("fp32", "2 fma a lane and cycle, fp32,", fma_peak("ffma", 2.0), group="fp32")
    yield peak("fp16", "4 fma a lane and cycle, packed half,", fma_peak("hfma", 4.0), group="fp16")
    old = tensor_peak(F16, "7.0"), tensor_peak("src_fp16_bf16_tf32_dst_fp32", "7.5")
    yield peak("tensor_fp16", "Dense tensor peak, fp16,", *old, *dense_peak(F16, hopper="hgmma_src_fp16"))
    yield peak("tensor_bf16", "Dense tensor peak, bf16,", *dense_peak(B16, hopper=f"hgmma_{B16}"))
    yield peak("tensor_tf32", "Dense tensor peak, tf32,", *dense_peak(T32, hopper=f"hgmma_{T32}"))
    yield peak(
        "tensor_fp8",
        "Dense tensor peak, fp8,",
        tensor_peak("src_fp8_sparsity_off", "8.9-9.0"),
        tensor_peak(f"op_utcqmma_{_FP4}_fp32_sparsity_off", "10.0 11.0"),
        tensor_peak(f"op_utcqmma_{_FP8}_fp32_sparsity_off", "10.3"),
        tensor_peak(f"{_FP8}_fp32_sparsity_off", "12.0-12.1"),
    )
    int8 = dense_peak(I8, hopper=f"igmma_{I8}", unit="imma", blackwell="utcimma")
    yield peak("tensor_int8", "Dense tensor peak, int8,", tensor_peak(I8, "7.5"), *int8)
    yield peak("tensor_fp64", "Tensor peak, fp64,", tensor_peak("src_fp64", "8.0-"))
    yield peak(
        "tensor_fp4",
        "Dense tensor peak, fp4,",
        tensor_peak("op_utcomma_src_fp4_dst_fp32_sparsity_off", "10.0-11.0"),
        tensor_peak("src_fp4_dst_fp32_sparsity_off", "12.0-12.1"),
    )


def _launch() -> Iterator[Counter]:
    def fact(name: str, unit: str, doc: str, *nvidia: Recipe) -> Counter:
        return _row("launch", "fact", name, unit, doc, *nvidia)

    yield from _plain("""
        occupancy mean occupancy 1 0.01*sm__warps_active.avg.pct_of_peak_sustained_active  Achieved occupancy: share of an SM's warps.
        launch fact occupancy_limit 1 0.01*sm__maximum_warps_per_active_cycle_pct  Theoretical occupancy, by registers, shared memory and block size.
        launch fact registers 1 launch__registers_per_thread  Registers a thread.
    """)
    shared = "launch__shared_mem_per_block"
    parts = total({f"{shared}_{part}": 1.0 for part in ("static", "dynamic", "driver")}, ask=False)
    yield fact("shared_memory", "B", "Shared memory a block: static, dynamic and the driver's.", one(shared), parts)
    yield from _plain("""
        launch fact waves 1 launch__waves_per_multiprocessor  Waves of blocks an SM.
        launch fact threads 1 launch__thread_count  Threads launched.
        launch fact blocks 1 launch__grid_size  Blocks launched.
        launch fact block_size 1 launch__block_size  Threads a block.
    """)
    counts = ("launch__sm_count", "device__attribute_multiprocessor_count")
    yield fact("sm_count", "1", "SMs of the device.", *(one(metric, ask=False) for metric in counts))
    for limit in ("registers", "shared_mem", "warps", "blocks"):
        said = f"Blocks an SM by its {limit.replace('_mem', ' memory')}."
        yield fact(f"limit_{limit}", "1", said, one(f"launch__occupancy_limit_{limit}"))
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
    for op, name in (("ld", "load"), ("st", "store")):
        yield from _plain(f"""
            access sum global_{name}_sectors 1 l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum  L1 sectors of global {name}s.
            access sum global_{name}_requests 1 l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum  L1 requests of global {name}s.
            shared sum shared_{name}_conflicts 1 l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum  Extra wavefronts of shared {name}s: conflicts.
            shared sum shared_{name}_wavefronts 1 l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum  Wavefronts of shared {name}s.
            local sum local_{name}_sectors 1 l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum  L1 sectors of local {name}s: spills, mostly.
        """)
    yield from _plain("""
        atomic sum atomic_requests 1 l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum  Global atomics that return a value.
        atomic sum reduction_requests 1 l1tex__t_requests_pipe_lsu_mem_global_op_red.sum  Global atomics that do not.
        issue sum inst_executed 1 smsp__inst_executed.sum  Warp instructions executed.
        issue mean issue_active 1 smsp__issue_active.avg.per_cycle_active  Share of a scheduler's active cycles that issued an instruction.
        issue mean active_warps 1 smsp__warps_active.avg.per_cycle_active  Warps resident a scheduler.
        issue mean eligible_warps 1 smsp__warps_eligible.avg.per_cycle_active  Warps ready to issue a scheduler.
        issue mean threads_per_inst 1 smsp__thread_inst_executed_per_inst_executed.ratio  Threads active in a warp instruction, of 32.
        issue mean warp_latency 1 smsp__average_warp_latency_per_inst_issued.ratio  Cycles a warp spends between two of its instructions.
    """)
    for reason, doc in STALLS.items():
        metric = f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        yield _row("stall", "mean", f"stall_{reason}", "1", f"Of warp_latency, cycles {doc}.", one(metric))


def _speed_of_light() -> Iterator[Counter]:
    elapsed, active = "avg.pct_of_peak_sustained_elapsed", "avg.pct_of_peak_sustained_active"
    parts = {
        "compute": [f"sm__throughput.{elapsed}"],
        "memory": [f"gpu__compute_memory_throughput.{elapsed}"],
        "dram": [f"gpu__dram_throughput.{elapsed}", f"dram__throughput.{elapsed}"],
        "l1": [f"l1tex__throughput.{active}"],
        "l2": [f"lts__throughput.{elapsed}"],
    }
    for name, (metric, *others) in parts.items():
        doc = f"ncu's busiest {name} part, share of peak."
        more = (one(other, 0.01, ask=False) for other in others)
        yield _row("light", "mean", f"{name}_throughput", "1", doc, one(metric, 0.01), *more)
    for pipe in ("alu", "fma", "fp64", "tensor", "xu"):
        share = one(f"sm__inst_executed_pipe_{pipe}.{active}", 0.01)
        yield _row("light", "mean", f"pipe_{pipe}", "1", f"Share of the {pipe} pipe's peak in active cycles.", share)


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
    "deep": ("base", "launch", "occupancy", "fp32", "hits", "access", "shared", "local", "atomic", "issue", "stall"),
}


def counter_set(name: str) -> tuple[str, ...]:
    """Counters of "default" (rooflines) or "deep"; raises CollectError for another name."""
    if name not in _SETS:
        raise CollectError(f"no counter set {name!r}", fix=f"use one of {', '.join(_SETS)}")
    return tuple(row.name for row in COUNTERS.values() if row.group in _SETS[name])


def metrics_for(names: Iterable[str], cc: str) -> tuple[str, ...]:
    """ncu's `--metrics` list for these counters on a chip, each metric once.

    cc: compute capability, "9.0". Raises CollectError for an unknown counter or an unreadable cc.
    """
    wanted = list(names)
    try:
        capability(cc)
    except ValueError as error:
        raise CollectError(str(error)) from error
    if strange := [name for name in wanted if name not in COUNTERS]:
        raise CollectError(f"no counter {strange[0]!r}", fix="see the table in collectors/counters.py")
    every = (recipe for name in wanted for recipe in COUNTERS[name].recipes["nvidia"])
    recipes = [recipe for recipe in every if recipe.ask and recipe.covers(cc)]
    return tuple(dict.fromkeys(metric for recipe in recipes for metric in recipe.metrics))


def metric_names(vendor: str = "nvidia") -> frozenset[str]:
    """All metrics in recipes of a counter: the columns of a file to read."""
    recipes = [recipe for counter in COUNTERS.values() for recipe in counter.recipes[vendor]]
    return frozenset(metric for recipe in recipes for metric in recipe.metrics)


def evaluate_columns(columns: Mapping[str, Column], cc: str, vendor: str = "nvidia") -> dict[str, Column]:
    """Every counter with collected metrics, by launch; NaN falls back to the next recipe."""
    import numpy as np  # a recording needs the names alone

    found: dict[str, Column] = {}
    for name, counter in COUNTERS.items():
        for recipe in counter.recipes[vendor]:
            if not recipe.covers(cc) or any(metric not in columns for metric in recipe.metrics):
                continue
            value = recipe.value(columns)
            found[name] = value if name not in found else np.where(np.isnan(found[name]), value, found[name])
    return found
