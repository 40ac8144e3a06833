import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import launches

from analyzers.counts import add_up, by_pipe, missing_pipes, without_half_moves
from analyzers.metrics import METRICS, View
from collectors.counters import COUNTERS
from collectors.frame import build
from roofline.ceilings import Ceiling, Roofline


def one(frame, roofline):
    return View(frame, roofline).derive().iloc[0]


def test_an_uncollected_counter_is_nan_and_so_is_what_needs_it(h200):
    frame = build({"kernel": ["a", "b"], "time": [1.0, 1.0], "flop_fp32": [1.0, np.nan], "cc": "9.0"}, tool="ncu")
    row = View(frame, h200).derive()
    assert row["flops"].tolist()[0] == 1.0
    assert math.isnan(row["flops"].tolist()[1])
    assert "dram_bandwidth" not in row or row["dram_bandwidth"].isna().all()
    assert row["attainable"].isna().all()
    moved = View(build({"kernel": ["a"], "time": [1.0], "dram_bytes": [5.0], "cc": ["9.0"]}, tool="ncu"), h200).derive()
    assert "flops" not in moved or moved["flops"].isna().all()
    assert moved["dram_bandwidth"].iloc[0] == 5.0


def test_a_pipe_the_chip_lacks_is_zero_and_one_it_has_is_missing():
    frame = build({"kernel": ["a"], "flop_fp32": [1.0], "cc": ["7.0"]}, tool="ncu")
    counts = {pipe: values[0] for pipe, values in by_pipe(frame).items()}
    assert counts["tensor_bf16"] == 0.0
    assert math.isnan(counts["tensor_fp16"])
    assert missing_pipes(frame) == ("fp64", "fp16", "tensor_fp16")
    assert missing_pipes(launches({})) == ()
    # Where no operation was asked for nothing is missing.
    assert missing_pipes(build({"kernel": ["a"], "time": [1.0], "cc": ["9.0"]}, tool="ncu")) == ()


def test_fma_share_is_of_instructions(h200):
    row = one(launches({"time": 1.0, "inst_fp32_add": 1.0, "inst_fp32_mul": 1.0, "inst_fp32_fma": 2.0}), h200)
    assert row["fma_share"] == 0.5
    none = one(launches({"time": 1.0, "inst_fp32_add": 0.0, "inst_fp32_mul": 0.0, "inst_fp32_fma": 0.0}), h200)
    assert math.isnan(none["fma_share"])


def test_each_pipe_has_its_own_roof_and_tensor_paths_add_up(h200):
    counted = {"flop_fp32": 6.7e12, "op_tensor_bf16": 98.94e12, "op_tensor_fp8": 197.89e12}
    row = one(launches({"time": 1.0, "dram_bytes": 0.0, **counted}), h200)
    assert row["flops"] == sum(counted.values())
    assert row["tensor_share"] == pytest.approx(296.83 / 303.53)
    assert row["compute_fraction"] == pytest.approx(0.2)
    assert row["attainable_fraction"] == pytest.approx(0.2)
    assert math.isnan(row["intensity_dram"])


def test_a_roof_unknown_to_the_roofline_comes_from_the_tool():
    frame = launches({"time": 1.0, "dram_bytes": 2e12, "peak_dram_bw": 4e12, "flop_fp32": 1e12, "peak_fp32": 5e12})
    row = one(frame, Roofline("bare"))
    assert row["dram_fraction"] == 0.5
    assert row["compute_fraction"] == pytest.approx(0.2)
    assert row["attainable_fraction"] == 0.5


def test_a_tiny_pipe_without_a_roof_does_not_hide_the_placement():
    line = Roofline("d", (Ceiling("fp32", "compute", 1e12, "measured"), Ceiling("dram", "bandwidth", 1e12, "measured")))
    tiny = one(launches({"time": 1.0, "flop_fp32": 5e11, "flop_fp16": 1e10, "dram_bytes": 1e11}), line)
    large = one(launches({"time": 1.0, "flop_fp32": 5e11, "flop_fp16": 1e11, "dram_bytes": 1e11}), line)
    assert tiny["attainable_fraction"] == 0.5
    assert math.isnan(large["attainable_fraction"])


amount = st.integers(0, 10**15).map(float)


@settings(deadline=None, max_examples=25)
@given(amount, amount, amount, st.floats(1e-7, 1.0))
def test_attainable_is_under_every_roof(flops, tensor, moved, time):
    line = Roofline(
        "d",
        (
            Ceiling("fp32", "compute", 67e12, "datasheet"),
            Ceiling("tensor_bf16", "compute", 989e12, "datasheet"),
            Ceiling("dram", "bandwidth", 4.8e12, "datasheet"),
        ),
    )
    row = one(launches({"time": time, "flop_fp32": flops, "op_tensor_bf16": tensor, "dram_bytes": moved}), line)
    total = flops + tensor
    if row["attainable"] > 0:
        assert row["attainable"] <= total / moved * 4.8e12 * (1 + 1e-9) if moved else True
        assert row["attainable"] <= 67e12 + 989e12
        assert row["attainable_fraction"] == pytest.approx(row["achieved_flops"] / row["attainable"])
    assert row["roof_time"] == max(flops / 67e12, tensor / 989e12, moved / 4.8e12)


def test_formulas_use_what_they_declare(h200):
    frame = launches(dict.fromkeys(COUNTERS, 1.0))
    read = set()

    class Spy(View):
        def __getitem__(self, name):
            read.add(name)
            return super().__getitem__(name)

    for metric in METRICS.values():
        read.clear()
        view = Spy(frame, h200, {name: np.ones(1) for name in METRICS})
        assert metric.formula(view).shape == (1,)
        assert read <= set(metric.needs), metric.name


def test_needs_are_counters_or_metrics_above():
    above = set(COUNTERS)
    for metric in METRICS.values():
        assert set(metric.needs) <= above, metric.name
        above.add(metric.name)


# --- adding up ---------------------------------------------------------------------------------------------------


def test_launches_add_up_by_kind_of_counter():
    frame = launches(
        {"time": 1.0, "dram_bytes": 10.0, "occupancy": 0.2, "registers": 32.0, "flop_fp32": 5.0},
        {"time": 3.0, "dram_bytes": 30.0, "occupancy": 0.6, "registers": 64.0, "flop_fp32": 5.0},
    )
    row = add_up(frame, ["impl"]).iloc[0]
    told = [row[name] for name in ("launches", "time", "dram_bytes", "flop_fp32", "registers")]
    assert told == [2, 4.0, 40.0, 10.0, 64.0]
    assert row["occupancy"] == pytest.approx(0.5)
    assert row["cc"] == "9.0"
    uncollected = add_up(launches({"dram_bytes": 1.0}, {"dram_bytes": np.nan}), ["impl"]).iloc[0]
    assert math.isnan(uncollected["dram_bytes"])


def test_a_row_of_a_summary_stands_for_its_instances():
    frame = build({"kernel": ["a", "b"], "impl": "x", "time": [2.0, 1.0], "instances": [10, 1]}, tool="nsys")
    row = add_up(frame, ["impl"]).iloc[0]
    assert (row["launches"], row["time"]) == (11, 21.0)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1e6)), min_size=1, max_size=20))
def test_adding_up_in_two_steps_is_adding_up_in_one(rows):
    frame = launches(*({"kernel": k, "time": 1.0, "flop_fp32": f} for k, f in rows))
    by_kernel = add_up(frame, ["impl", "kernel"])
    assert by_kernel["flop_fp32"].sum() == pytest.approx(add_up(frame, ["impl"])["flop_fp32"].iloc[0])
    assert by_kernel["launches"].sum() == len(rows)


@pytest.mark.parametrize(
    ("kernel", "halves"),
    [
        ("void scale<float>(float *, const float *, int)", 0.0),
        ("rmse(double const*, double const*, double*, unsigned int)", 0.0),
        ("scale(__half *, const float *, int)", 1e6),
        ("scale(T1 *, float *)", 1e6),
        ("count(int *, int)", 1e6),
        ("scale", 1e6),
    ],
)
def test_constants_moved_by_hfma2_are_no_fp16_work_of_kernels_of_fp32(kernel, halves):
    """An import declares no work: the kernel's own arguments say whether it has halves."""
    frame = launches({"kernel": kernel, "flop_fp16": 1e6, "flop_fp32": 2e6})
    cleaned, caveats = without_half_moves(frame, {"": ()})
    assert cleaned["flop_fp16"].tolist() == [halves]
    assert [one.code for one in caveats] == ["fp16-vectors"] * (not halves)
