"""The table of counters and the frame that holds them."""

import csv
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors import CollectError
from collectors.caveat import Caveat
from collectors.counters import COUNTERS, counter_set, evaluate_columns, metrics_for
from collectors.frame import KEYS, OPTIONAL, build, host_of, key_order, set_host, uncollected
from collectors.recipes import capability, covers


def evaluate(values, cc):
    """Every counter of one launch."""
    found = evaluate_columns({name: np.array([float(value)]) for name, value in values.items()}, cc)
    return {name: float(found[name][0]) if name in found else math.nan for name in COUNTERS}


CHIPS = ("7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1")
SUPPORT = Path(__file__).parents[3] / "shared/data/ncu/metric_support.csv"
SASS = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"


def test_every_row_is_documented_and_well_formed():
    for name, counter in COUNTERS.items():
        assert counter.name == name
        assert counter.doc.endswith(".")
        assert counter.unit
        assert counter.recipes["nvidia"]
        assert counter.kind in ("sum", "mean", "fact")


def test_a_missing_term_makes_the_sum_nan():
    values = {SASS.format("fadd"): 1.0, SASS.format("fmul"): 10.0}
    assert math.isnan(evaluate(values, "9.0")["flop_fp32"])
    assert math.isnan(evaluate({**values, SASS.format("ffma"): math.nan}, "9.0")["flop_fp32"])


def test_packed_fp32_counts_twice_and_only_on_chips_that_have_it():
    values = {SASS.format(f"f{op}{two}"): 1.0 for op in ("add", "mul", "fma") for two in ("", "2")}
    assert evaluate(values, "10.0")["flop_fp32"] == 1 + 1 + 2 + 2 + 2 + 4
    assert evaluate(values, "9.0")["flop_fp32"] == 4
    scalar = {name: value for name, value in values.items() if "2_" not in name}
    assert math.isnan(evaluate(scalar, "10.3")["flop_fp32"])
    assert SASS.format("ffma2") in metrics_for(["flop_fp32"], "10.3")
    assert SASS.format("ffma2") not in metrics_for(["flop_fp32"], "12.0")


def test_tensor_peak_of_hopper_is_the_dense_one():
    asked = metrics_for(["peak_tensor_bf16"], "9.0")
    assert "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum.peak_sustained" in asked
    values = {
        "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum.peak_sustained": 540672.0,
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum.peak_sustained": 1081344.0,
        "sm__cycles_elapsed.avg.per_second": 1.97e9,
    }
    assert evaluate(values, "9.0")["peak_tensor_bf16"] == pytest.approx(1065.1e12, rel=1e-4)


def test_no_chip_is_asked_for_a_sparse_peak():
    for chip in CHIPS:
        for metric in metrics_for([name for name in COUNTERS if name.startswith("peak_tensor")], chip):
            sparse_is_dense = "fp64" in metric or chip in ("7.0", "7.5")
            assert sparse_is_dense or "sparsity_off" in metric or "cycles_elapsed" in metric


def test_shared_memory_chips_have_no_dram_metrics():
    for chip in ("8.7", "11.0", "12.1"):
        asked = metrics_for(["dram_bytes", "dram_read", "dram_write", "dram_clock", "peak_dram_bw"], chip)
        assert not any(metric.startswith("dram__") for metric in asked)


def test_dram_split_is_asked_by_both_names_on_new_chips_and_either_is_enough():
    asked = metrics_for(["dram_read"], "12.0")
    assert asked == ("dram__bytes_read.sum", "dram__bytes_op_read.sum")
    for name in asked:
        other = asked[1 - asked.index(name)]
        assert evaluate({name: 5.0, other: math.nan}, "12.0")["dram_read"] == 5.0


def test_older_recordings_give_the_same_counter_by_another_way():
    rates = {
        f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum.per_cycle_elapsed": 1.0 for op in ("fadd", "fmul", "ffma")
    }
    found = evaluate({"gpu__time_duration.sum": 2.0, **rates, "smsp__cycles_elapsed.avg.per_second": 10.0}, "8.0")
    assert found["flop_fp32"] == 4.0 * 10.0 * 2.0


def test_unknown_chip_tries_every_recipe():
    assert evaluate({"sm__ops_path_tensor_src_fp16.sum": 7.0}, "")["op_tensor_fp16"] == 7.0


def test_sets_and_names_are_checked():
    with pytest.raises(CollectError, match="no counter set"):
        counter_set("everything")
    with pytest.raises(CollectError, match="no counter 'speed'"):
        metrics_for(["speed"], "9.0")
    with pytest.raises(CollectError, match="hopper"):
        metrics_for(["time"], "hopper")
    assert {"stall_long_scoreboard", "shared_load_conflicts", "local_load_sectors"} <= set(counter_set("deep"))


@given(st.sampled_from(CHIPS), st.sampled_from(sorted(COUNTERS)), st.integers(1, 10**9))
def test_collecting_what_is_asked_gives_the_counter(chip, name, value):
    asked = metrics_for([name], chip)
    found = evaluate({metric: float(value) for metric in asked}, chip)[name]
    assert math.isnan(found) == (not asked)


def test_chip_lists():
    assert covers("8.0-8.9 12.0", "8.6")
    assert not covers("8.0-8.9 12.0", "9.0")
    assert covers("9.0-", "12.1")
    assert not covers("10.0-10.3", "9.0")
    assert covers("", "7.0")
    assert [capability(cc) for cc in ("7.5", "10.3", "sm_90a", "sm_120")] == [75, 103, 90, 120]
    for wrong in ("", "9", "sm90", "9.0.1"):
        with pytest.raises(ValueError, match="compute capability"):
            capability(wrong)


@pytest.mark.skipif(not SUPPORT.exists(), reason="the support matrix is not here")
def test_what_is_asked_exists_on_the_chip():
    with SUPPORT.open(newline="") as file:
        head, *rows = csv.reader(file)
    support = {row[0]: row[1:] for row in rows}
    allowed = {
        "TU116": "tensor",  # a chip of 7.5 without tensor cores
        "GB100": "bytes_op_",
        "GB110": "bytes_op_",
        "GB202": "dram__bytes_",  # asked for by both names
    }
    for place, column in enumerate(head[1:]):
        chip, *rest = column.split("|")
        if not rest[0].startswith("cc"):
            continue
        for metric in metrics_for((name for name in COUNTERS if name != "dram_throughput"), rest[0][2:]):
            known = support.get(metric) or support.get(metric.replace(".sum.peak_sustained", ".sum"))
            if known and known[place] != "1":
                assert allowed.get(chip, "?") in metric, (column, metric)


@pytest.mark.parametrize(
    ("read", "write", "weight"),
    [
        ("dram__bytes_op_read.sum", "dram__bytes_op_write.sum", 1),
        ("dram__bytes_read.sum", "dram__bytes_write.sum", 1),
        ("dram__sectors_read.sum", "dram__sectors_write.sum", 32),
    ],
)
def test_bytes_by_direction_add_up(read, write, weight):
    """The names of newer and older chips, and sectors of older recordings."""
    found = evaluate_columns({read: np.array([3.0]), write: np.array([5.0])}, "")
    assert [found[name][0] / weight for name in ("dram_bytes", "dram_read", "dram_write")] == [8, 3, 5]


TIME, SM = "gpu__time_duration.sum", "sm__cycles_elapsed.avg.per_second"
L2, PORT = "lts__cycles_elapsed.avg.per_second", "lts__lts2xbar_cycles_active.sum"
ADDS = SASS.format("fadd").replace("sm__", "smsp__")
LATER = [
    ("time", {"gpu__time_duration.avg": 5.0}, 5.0),
    ("dram_bytes", {"dram__bytes.sum.per_second": 3.0, TIME: 2.0}, 6.0),
    ("dram_read", {"dram__bytes_read.sum.per_second": 3.0, TIME: 2.0}, 6.0),
    ("dram_write", {"dram__bytes_write.sum.per_second": 3.0, TIME: 2.0}, 6.0),
    ("dram_write", {"dram__sectors_write.sum": 3.0}, 96.0),
    ("dram_read", {"dram__sectors_read.sum": 3.0}, 96.0),
    ("l2_bytes", {"lts__t_bytes.sum.per_second": 3.0, TIME: 2.0}, 6.0),
    ("l2_bytes", {PORT: 3.0}, 96.0),
    ("l2_bytes", {f"{PORT}.per_second": 3.0, TIME: 2.0}, 192.0),
    ("l2_bytes", {"lts__t_sectors.sum": 3.0}, 96.0),
    ("l2_bytes", {"lts__t_sectors.sum.per_second": 3.0, TIME: 2.0}, 192.0),
    ("l1_bytes", {"l1tex__t_bytes.sum.per_second": 3.0, TIME: 2.0}, 6.0),
    ("inst_fp32_add", {ADDS: 3.0}, 3.0),
    ("inst_fp32_add", {f"{ADDS}.per_cycle_elapsed": 3.0, "smsp__cycles_elapsed.avg.per_second": 10.0, TIME: 2.0}, 60.0),
    ("sm_clock", {"smsp__cycles_elapsed.avg.per_second": 3.0}, 3.0),
    ("sm_clock", {"gpc__cycles_elapsed.avg.per_second": 3.0}, 3.0),
    (
        "peak_dram_bw",
        {"device__attribute_memory_clock_rate": 4.0, "device__attribute_global_memory_bus_width": 5.0},
        250.0 * 20.0,
    ),
    ("peak_l2_bw", {f"{PORT}.peak_sustained": 3.0, L2: 2.0}, 192.0),
    ("shared_memory", {f"launch__shared_mem_per_block_{p}": 3.0 for p in ("static", "dynamic", "driver")}, 9.0),
    ("sm_count", {"launch__sm_count": 132.0}, 132.0),
    ("sm_count", {"device__attribute_multiprocessor_count": 132.0}, 132.0),
    ("passes", {"profiler__replayer_passes": 8.0}, 8.0),
]


@pytest.mark.parametrize(("name", "values", "expected"), LATER, ids=lambda one: one if isinstance(one, str) else "")
def test_other_peoples_recordings_are_read_with_their_weight_and_never_asked_for(name, values, expected):
    assert evaluate(values, "")[name] == expected
    asked = {metric for chip in CHIPS for metric in metrics_for(COUNTERS, chip)}
    assert not set(values) - {TIME, L2} & asked


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("l2_hit_rate", {"lts__t_sector_hit_rate.pct": 50.0}, 0.5),
        ("l1_hit_rate", {"l1tex__t_sector_hit_rate.pct": 50.0}, 0.5),
        ("l2_write", {"lts__t_sectors_srcunit_tex_op_write.sum": 3.0}, 96.0),
        ("flop_fp64", {SASS.format("dadd"): 1.0, SASS.format("dmul"): 10.0, SASS.format("dfma"): 100.0}, 211.0),
        ("flop_fp16", {SASS.format(op): 1.0 for op in ("hadd", "hmul", "hfma")}, 8.0),  # each counts a pair
        ("inst_fp64_fma", {SASS.format("dfma"): 3.0}, 3.0),
        ("inst_fp16_mul", {SASS.format("hmul"): 3.0}, 3.0),
        ("op_tensor_fp8", {"sm__ops_path_tensor_src_fp8.sum": 3.0}, 3.0),
        ("peak_fp64", {f"{SASS.format('dfma')}.peak_sustained": 3.0, SM: 5.0}, 30.0),
        ("peak_fp32", {f"{SASS.format('ffma')}.peak_sustained": 3.0, SM: 5.0}, 30.0),
        ("peak_fp16", {f"{SASS.format('hfma')}.peak_sustained": 3.0, SM: 5.0}, 60.0),
        ("peak_l1_bw", {"l1tex__t_bytes.sum.peak_sustained": 3.0, SM: 5.0}, 15.0),
        ("peak_l2_bw", {"lts__t_bytes.sum.peak_sustained": 3.0, L2: 5.0}, 15.0),
        ("registers", {"launch__registers_per_thread": 3.0}, 3.0),
        ("occupancy_limit", {"sm__maximum_warps_per_active_cycle_pct": 50.0}, 0.5),
        ("dram_throughput", {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 50.0}, 0.5),
    ],
)
def test_what_is_asked_for_is_read_with_its_weight(name, values, expected):
    assert evaluate(values, "9.0")[name] == expected
    assert set(metrics_for([name], "9.0")) == set(values)


def test_rocprof_counts_kilobytes_and_percent():
    columns = {name: np.array([3.0]) for name in ("FETCH_SIZE", "WRITE_SIZE", "L2CacheHit")}
    found = evaluate_columns(columns, "", "amd")
    assert {name: float(value[0]) for name, value in found.items()} == {
        "dram_read": 3072.0,
        "dram_write": 3072.0,
        "l2_hit_rate": 0.03,
    }


def test_nothing_stands_in_for_what_was_counted():
    """Of two ways that a recording holds, the first that has a number for the launch is taken."""
    columns = {"lts__t_bytes.sum": np.array([5.0, math.nan]), "lts__t_sectors.sum": np.array([1.0, 1.0])}
    assert list(evaluate_columns(columns, "9.0")["l2_bytes"]) == [5.0, 32.0]
    assert "l1_bytes" not in evaluate_columns(columns, "9.0")


def test_build_fills_keys_orders_columns_and_keeps_caveats():
    frame = build(
        {"time": [1.0, 2.0], "kernel": ["a", "b"], "stream": "7"}, tool="nsys", caveats=[Caveat("x", "y", "z")]
    )
    assert list(frame.columns) == [*KEYS, "stream", "time"]
    assert frame["launch"].tolist() == [0, 1]
    assert frame["kind"].tolist() == ["kernel", "kernel"]
    assert frame["impl"].tolist() == ["", ""]
    assert frame["time"].dtype == np.float64
    assert frame.attrs["caveats"] == [Caveat("x", "y", "z")]
    assert np.isnan(build({"time": [1, None]}, tool="ncu")["time"][1])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"kernel": ["a"], "nonsense": [1.0]}, "nonsense"),
        ({"kernel": ["a"], "time": [1.0, 2.0]}, "different length"),
        ({"kernel": ["a"], "kind": "ballet"}, "ballet"),
        ({"kernel": ["a"], "time": ["fast"]}, "time"),
        ({"kernel": ["a"], "launch": [None]}, "launch"),
    ],
)
def test_build_refuses(columns, message):
    with pytest.raises(CollectError, match=message):
        build(columns, tool="ncu")
    with pytest.raises(CollectError, match="vtune"):
        build({"kernel": ["a"]}, tool="vtune")


def test_uncollected_names_what_was_asked_for_and_did_not_come():
    frame = build({"time": [1.0], "flop_fp32": [float("nan")], "cc": "9.0"}, tool="ncu")
    assert uncollected(frame, ["time", "flop_fp32", "dram_bytes", "op_tensor_int4"]) == ("flop_fp32", "dram_bytes")


def test_key_order_is_keys_optional_counters():
    everything = key_order([*COUNTERS, *OPTIONAL, *KEYS])
    assert everything == [*KEYS, *OPTIONAL, *COUNTERS]


def test_what_the_host_did_is_handed_on_as_it_is():
    frame, host = build({"kernel": ["a", "b"]}, tool="nsys"), pd.DataFrame({"call": ["launch"] * 3})
    assert host_of(frame) is None
    set_host(frame, host)
    assert host_of(frame[["kernel", "kind"]].astype(str)) is host
    assert host_of(pd.concat([frame[["kernel"]], frame[["kind"]]], axis=1)) is host
