import math

import numpy as np
import pandas as pd
import pytest
from synthetic import ICVXKH_BYTES, ICVXKH_FLOP, launches, noisy, samples

from analyzers.errors import AnalyzeError
from analyzers.lower_bound import Work
from analyzers.verdicts import timing
from analyzers.verdicts.analysis import Recording, analyze
from analyzers.verdicts.implementation import IMPL_COLUMNS
from analyzers.verdicts.statistics import Ratio
from collectors.frame import build
from roofline.ceilings import Ceiling, Roofline

MODEL = Work({"fp32": ICVXKH_FLOP}, ICVXKH_BYTES, "modelled", written=131_072)


def whats(analysis):
    return " | ".join(caveat.what for caveat in analysis.caveats)


@pytest.fixture
def timings():
    return samples({"reference": noisy(39e-6, seed=1), "cuda": noisy(26e-6, seed=2)}, host=60e-6, sm_clock=1.98e9)


@pytest.fixture
def counters():
    return launches(
        {"impl": "reference", "kernel": "gemm", "time": 30e-6, "flop_fp32": 67_108_864.0, "dram_bytes": 9e6},
        {"impl": "reference", "kernel": "relu", "time": 10e-6, "flop_fp32": 0.0, "dram_bytes": 131_072.0},
        {"impl": "cuda", "kernel": "k", "time": 25e-6, "flop_fp32": 67_108_864.0, "dram_bytes": 2 * ICVXKH_BYTES},
    )


def test_the_whole_story_by_hand(timings, counters, h200):
    result = analyze(timings, counters, {"": (MODEL,)}, h200)
    assert result.impls["impl"].tolist() == ["reference", "cuda"]
    row = result.impl("cuda")
    assert row["time"] == pytest.approx(26e-6, rel=2e-3)
    assert (row["method"], row["l2"], row["n"], row["rounds"]) == ("event", "cold", 60, 20)
    assert row["time_low"] <= row["time"] <= row["time_high"]
    assert row["host_time"] == 60e-6
    assert row["speedup"] == pytest.approx(1.5, rel=2e-3)
    assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    assert row["verdict"] == "faster"
    assert (row["work_source"], row["counted_flops"], row["bytes"]) == ("counted", 67_108_864.0, 2 * ICVXKH_BYTES)
    assert (row["flops"], row["flops_lower"]) == (ICVXKH_FLOP, False)
    assert row["achieved_flops"] == pytest.approx(ICVXKH_FLOP / row["time"])
    assert row["intensity"] == pytest.approx(ICVXKH_FLOP / (2 * ICVXKH_BYTES))
    assert row["compulsory_ratio"] == pytest.approx(2.0)
    assert row["lower_bound_time"] == pytest.approx(ICVXKH_BYTES / 4.8e12)
    assert row["lower_bound_ratio"] == pytest.approx(row["time"] / row["lower_bound_time"])
    assert (row["kernels"], row["counted_time"]) == (1, 25e-6)
    assert (row["bound_by"], row["impossible"]) == ("unknown", False)
    reference = result.impl("reference")
    assert (reference["verdict"], reference["speedup"], reference["kernels"]) == ("reference", 1.0, 2)
    assert (reference["counted_flops"], reference["flops"]) == (67_108_864, ICVXKH_FLOP)


def test_without_counters_the_model_speaks_and_says_so(timings, h200):
    result = analyze(timings, None, {"": (MODEL,)}, h200, counters_missing="ncu was not found")
    row = result.impl("cuda")
    assert (row["work_source"], row["flops"], row["bytes"]) == ("modelled", ICVXKH_FLOP, ICVXKH_BYTES)
    assert row["achieved_flops"] == pytest.approx(2.58e12, rel=5e-3)
    assert row["dram_bandwidth"] == pytest.approx(330e9, rel=5e-3)
    assert row["intensity"] == pytest.approx(7.82, rel=1e-3)
    assert (row["bound_by"], row["compute"]) == ("unknown", "fp32")
    assert math.isnan(row["compulsory_ratio"])
    assert result.kernels.empty
    assert result.caveats[0].how_much == "ncu was not found"
    near = analyze(samples({"reference": noisy(2e-6)}), None, {"": (MODEL,)}, h200)
    assert near.impl("reference")["bound_by"] == "dram"


def test_launches_without_times_of_a_call_are_not_called_launch_bound(h200):
    frame = build({"kernel": ["k"], "time": [1.8e-6], "instances": [1000], "cc": ["9.0"]}, tool="nsys")
    row = analyze(None, frame, {}, h200).impls.iloc[0]
    assert (row["kernels"], row["bound_by"], row["method"]) == (1000, "unknown", "nsys")


def test_kernels_slower_under_the_tool_are_caveats(timings, h200):
    frame = launches({"impl": "cuda", "time": 80e-6, "dram_bytes": 9e6})
    assert "during counting" in whats(analyze(timings, frame, {}, h200))


def test_strangers_launches_without_a_reference(h200):
    result = analyze(None, launches({"impl": "", "time": 1e-3, "flop_fp32": 6e10, "dram_bytes": 1e6}), {}, h200)
    row = result.impls.iloc[0]
    assert (row["impl"], row["verdict"], row["bound_by"]) == ("", "", "fp32")
    assert math.isnan(row["speedup"])


def test_a_time_below_the_lower_bound_is_impossible_not_faster(h200):
    result = analyze(samples({"reference": noisy(39e-6), "cheat": noisy(0.5e-6)}), None, {"": (MODEL,)}, h200)
    row = result.impl("cheat")
    assert row["impossible"]
    assert row["verdict"] == "impossible"
    assert "impossible" in whats(result)
    assert "a speed-up above 10x" in whats(result)


def test_flop_that_a_right_answer_does_without_are_no_bound_of_the_task(h200):
    """diag(A) @ B as a product: the reference's FLOP take 2 ms, the bytes 28 us."""
    work = Work({"fp32": 1.37e11}, 1.34e8, "modelled", written=6.7e7)
    result = analyze(samples({"reference": noisy(2.7e-3), "scaled": noisy(55e-6)}), None, {"": (work,)}, h200)
    row = result.impl("scaled")
    assert (row["impossible"], row["verdict"], row["lower_bound_bound_by"]) == (False, "faster", "dram")
    assert row["lower_bound_ratio"] == pytest.approx(55e-6 / (1.34e8 / 4.8e12), rel=0.05)
    assert math.isnan(row["achieved_flops"])
    assert "by bytes only" in whats(result)


def test_the_achieved_rate_is_of_the_tasks_work_whatever_was_counted(h200):
    """A reference that pads its tiles achieves nothing by it: the faster candidate stands higher."""
    work = Work({"tensor_bf16": 1e11}, 1e8)
    padded = {"impl": "reference", "time": 3e-4, "op_tensor_bf16": 2e11, "dram_bytes": 1e8}
    lean = {"impl": "cuda", "time": 3e-4 / 1.73, "op_tensor_bf16": 1e11, "dram_bytes": 1e8}
    rows = analyze(None, launches(padded, lean), {"": (work,)}, h200).impls.set_index("impl")
    achieved = rows["achieved_flops"]
    assert achieved["cuda"] / achieved["reference"] == pytest.approx(1.73)
    assert rows["counted_flops"].tolist() == [2e11, 1e11]


def test_without_a_work_a_partial_count_is_a_lower_bound(h200):
    rows = {"flop_fp32": math.nan, "inst_fp32_fma": 1e9, "inst_fp32_add": math.nan, "inst_fp32_mul": math.nan}
    row = analyze(None, launches({"time": 1e-3, "dram_bytes": 1e6, **rows}), {}, h200).impl("reference")
    assert (row["flops"], row["flops_lower"]) == (2e9, True)


def test_one_lower_bound_a_task_and_beside_it_that_of_the_own_precision(h200):
    work = Work({"fp32": 2 * 4096**3}, 3 * 4 * 4096**2, "modelled")
    tf32 = {"impl": "tf32", "time": 310e-6, "op_tensor_tf32": 2 * 4096**3, "dram_bytes": 3 * 4 * 4096**2}
    plain = {"impl": "reference", "time": 2600e-6, "flop_fp32": 2 * 4096**3, "dram_bytes": 3 * 4 * 4096**2}
    timings = samples({"reference": noisy(2700e-6), "tf32": noisy(320e-6)})
    rows = analyze(timings, launches(plain, tf32), {"": (work,)}, h200).impls.set_index("impl")
    assert rows["lower_bound_time"].tolist() == [pytest.approx(2 * 4096**3 / 67e12)] * 2
    assert rows["lower_bound_own_bound_by"].tolist() == ["fp32", "tensor_tf32"]
    assert rows["lower_bound_own_time"]["tf32"] == pytest.approx(2 * 4096**3 / 494.7e12)
    own = {"reference": rows["lower_bound_time"], "tf32": rows["lower_bound_own_time"]}
    assert all(rows["lower_bound_ratio"][name] == rows["time"][name] / bound[name] for name, bound in own.items())


@pytest.mark.parametrize(("precision", "pipe"), [("tf32", "tensor_tf32"), ("bf16", "tensor_bf16"), ("fp32", "fp32")])
def test_without_counters_the_measured_precision_names_the_pipe(h200, precision, pipe):
    work = Work({"fp32": 2 * 4096**3}, 3 * 4 * 4096**2, "modelled")
    recording = Recording(precisions={"lower": precision})
    timings = samples({"reference": noisy(2700e-6), "lower": noisy(320e-6)})
    row = analyze(timings, None, {"": (work,)}, h200, recording=recording).impl("lower")
    assert row["lower_bound_own_bound_by"] == pipe
    assert row["roof"] == (pipe if precision != "fp32" else "")
    assert row["lower_bound_bound_by"] == ("dram" if precision == "fp32" else "fp32")


def test_a_unit_of_the_same_precision_lowers_the_lower_bound_of_all(h200):
    work = Work({"fp64": 1e10}, 1e6)
    dmma = {"impl": "reference", "time": 2e-4, "op_tensor_fp64": 1e10, "dram_bytes": 1e6}
    plain = {"impl": "cuda", "time": 4e-4, "flop_fp64": 1e10, "dram_bytes": 1e6}
    rows = analyze(None, launches(dmma, plain), {"": (work,)}, h200).impls
    assert rows["lower_bound_time"].tolist() == [pytest.approx(1e10 / 67e12)] * 2
    assert rows["lower_bound_own_bound_by"].tolist() == ["tensor_fp64", "fp64"]


def test_a_lower_bound_knows_the_launch_where_it_was_measured(h200):
    timings = samples({"reference": noisy(59e-6), "cuda": noisy(1.6e-6)})
    blind = analyze(timings, None, {"": (Work({"fp32": 98304.0}, 32864.0),)}, h200)
    assert blind.impl("cuda")["lower_bound_ratio"] > 200
    assert [caveat.code for caveat in blind.caveats].count("lower-bound-without-launch") == 1
    line = h200.with_([Ceiling("launch", "time", 1.1e-6, "measured"), Ceiling("gap", "time", 1e-6, "measured")])
    known = analyze(timings, None, {"": (Work({"fp32": 98304.0}, 32864.0),)}, line)
    row = known.impl("cuda")
    assert (row["lower_bound_bound_by"], row["lower_bound_ratio"]) == ("launch", pytest.approx(1.6 / 1.1, rel=1e-2))
    assert "lower-bound-without-launch" not in {caveat.code for caveat in known.caveats}


def test_a_reference_below_its_lower_bound_withdraws_it(h200):
    result = analyze(samples({"reference": noisy(0.5e-6), "cuda": noisy(0.4e-6)}), None, {"": (MODEL,)}, h200)
    assert result.impls["lower_bound_time"].isna().all()
    assert not result.impls["impossible"].any()
    assert [caveat.code for caveat in result.caveats].count("lower-bound-withdrawn") == 1


def test_impossible_is_what_the_pipe_that_did_the_work_cannot_do(h200):
    work = Work({"fp32": 2 * 4096**3}, 3 * 4 * 4096**2, "modelled")
    frame = launches({"impl": "tf32", "time": 300e-6, "op_tensor_tf32": 2 * 4096**3, "dram_bytes": 3 * 4 * 4096**2})
    timings = samples({"reference": noisy(2700e-6), "tf32": noisy(320e-6)})
    row = analyze(timings, frame, {"": (work,)}, h200).impl("tf32")
    assert row["lower_bound_own_bound_by"] == "tensor_tf32"
    assert row["verdict"] == "faster"


def test_kernels_of_two_precisions_have_no_ceiling_in_common(h200):
    """Said before: 121 TFLOP/s at 67 % of the fp32 ceiling, which is 67 TFLOP/s."""
    plain = {"kernel": "a", "time": 70e-6, "flop_fp32": 0.96 * 67e12 * 70e-6, "dram_bytes": 1e6}
    halves = {"kernel": "b", "time": 30e-6, "op_tensor_fp16": 7.6e9, "dram_bytes": 1e6}
    row = analyze(None, launches(plain, halves), {}, h200).impl("reference")
    assert (row["bound_by"], row["compute"], row["roof"]) == ("mixed", "mixed", "")
    assert math.isnan(row["roof_share"])
    assert row["achieved_flops"] == pytest.approx((0.96 * 67e12 * 70e-6 + 7.6e9) / 100e-6)


def test_a_whole_that_is_near_no_roof_says_what_most_of_it_is_bound_by(h200):
    peak = h200.peak("dram")
    stream = {"impl": "reference", "kernel": "copy", "time": 60e-6, "dram_bytes": 0.9 * peak * 60e-6}
    idle = {"impl": "reference", "kernel": "wait", "time": 50e-6, "dram_bytes": 1e4}
    row = analyze(samples({"reference": noisy(110e-6)}), launches(stream, idle), {}, h200).impl("reference")
    assert (row["bound_by"], row["bound_split"]) == ("dram", "55% dram, 45% unknown")
    later = analyze(samples({"reference": noisy(200e-6)}), launches(stream, idle), {}, h200).impl("reference")
    assert (later["bound_by"], later["bound_split"]) == ("mixed", "45% gaps, 30% dram, 25% unknown")
    alone = analyze(samples({"reference": noisy(50e-6)}), launches(idle), {}, h200).impl("reference")
    assert (alone["bound_by"], alone["bound_split"]) == ("unknown", "100% unknown")


def test_the_most_trusted_method_with_enough_rounds_decides(h200):
    event = samples({"reference": noisy(30e-6), "c": noisy(20e-6)})
    few = samples({"reference": noisy(25e-6, 6), "c": noisy(15e-6, 6)}, "cupti")
    many = samples({"reference": noisy(25e-6), "c": noisy(15e-6)}, "cupti")
    assert analyze(pd.concat([event, few]), None, {}, h200).method == "event"
    result = analyze(pd.concat([event, many]), None, {}, h200)
    assert result.method == "cupti"


def of_two_clocks(cupti, event):
    """timings.csv of a candidate whose speed-up is `cupti` by one clock and `event` by the other, each exactly."""
    reference, n = noisy(30e-6), 60
    parts = ((cupti, "cupti", np.ones(n)), (event, "event", 1 + 0.03 * np.sin(np.arange(n) // 3)))
    return pd.concat(
        samples({"reference": reference, "c": reference * wave / gain}, method=method) for gain, method, wave in parts
    )


@pytest.mark.parametrize(
    ("cupti", "event", "word"),
    [
        (1.04, 1.002, "inconclusive"),  # the other clock's interval includes 1
        (0.9, 1.05, "inconclusive"),  # all of it lies on the other side
        (1.3, 0.9, "inconclusive"),
        (0.96, 1.002, "inconclusive"),
        (1.3, 1.002, "faster"),  # too much to be undone by a wide interval
        (1.09, 1.01, "inconclusive"),
        (1.11, 1.01, "faster"),  # from a tenth on
        (1.05, 1.05, "faster"),
        (0.95, 0.95, "slower"),
        (1.0, 1.2, "same"),
    ],
)
def test_a_second_clock_that_contradicts_undoes_the_word(h200, cupti, event, word):
    row = analyze(of_two_clocks(cupti, event), None, {}, h200).impl("c")
    assert (row["method"], row["pace"], row["verdict"]) == ("cupti", word, word)
    assert row["clocks"].partition(", event ")[0] == (f"cupti {cupti:.3g}x" if word == "inconclusive" else "")
    assert row["speedup"] == pytest.approx(cupti)


@pytest.mark.parametrize(
    ("event", "contradicts"),
    [((1.05, 0.97, 1.13), False), ((1.03, 0.97, 1.1), True), ((1.05, 1.01, 1.1), False), ((0.97, 0.95, 0.99), True)],
)
def test_a_second_clock_that_is_only_less_sure_contradicts_nothing(event, contradicts):
    """Of a claimed 1.05x [1.04, 1.06], and of its inverse."""
    faster = Ratio(1.05, 1.04, 1.06, n=20, verdict="faster")
    assert timing._contradicts(Ratio(*event, n=20), faster) == contradicts
    value, low, high = event
    slower = Ratio(1 / 1.05, 1 / 1.06, 1 / 1.04, n=20, verdict="slower")
    assert timing._contradicts(Ratio(1 / value, 1 / high, 1 / low, n=20), slower) == contradicts


def test_a_second_clock_of_another_cache_or_few_rounds_undoes_nothing(h200):
    both = of_two_clocks(1.04, 0.9)
    assert analyze(both, None, {}, h200).impl("c")["pace"] == "inconclusive"
    few = both[~(both["method"].eq("event") & both["round"].ge(4))]
    assert analyze(few, None, {}, h200).impl("c")["pace"] == "faster"
    warm = both.assign(l2=np.where(both["method"].eq("event"), "warm", "cold"))
    assert analyze(warm, None, {}, h200).impl("c")["pace"] == "faster"


def test_unsound_samples_are_left_out_and_counted(h200):
    timings = samples({"reference": noisy(30e-6)})
    timings["kept"] = 1
    timings.loc[timings.index[:12], ["seconds", "kept"]] = [9.0, 0]
    timings.loc[timings.index[12], "seconds"] = np.nan
    result = analyze(timings, None, {}, h200)
    assert result.impl("reference")["n"] == 47
    assert result.impl("reference")["time"] == pytest.approx(30e-6, rel=1e-2)
    assert "unsound" in whats(result)
    assert "13 of 60" in " ".join(d.how_much for d in result.caveats)


def test_caveats_of_a_bad_measurement(h200):
    rising = 30e-6 * (1 + 0.03 * np.arange(60) / 60)
    timings = samples({"reference": rising, "c": rising * 2, "d": noisy(30e-6, rel=0.2)}, l2="warm", throttle=4)
    timings["sm_clock"] = np.where(timings["impl"] == "c", 1.5e9, 1.98e9)
    text = whats(analyze(timings, None, {}, h200))
    for words in ("drifts", "warm cache", "slowed by power", "SM clock differs", "precision"):
        assert words in text


def test_few_rounds_are_inconclusive(h200):
    result = analyze(samples({"reference": noisy(30e-6, 9), "c": noisy(10e-6, 9)}), None, {}, h200)
    assert result.impl("c")["verdict"] == "inconclusive"
    assert "too few interleaved rounds" in whats(result)


def test_works_by_name_and_unknown_pipes(timings, h200):
    result = analyze(timings, None, {"cuda": (MODEL,)}, h200)
    assert result.impl("reference")["work_source"] == ""
    assert result.impl("cuda")["work_source"] == "modelled"
    with pytest.raises(AnalyzeError, match="magic"):
        analyze(timings, None, {"": (Work({"magic": 1.0}, 1.0),)}, h200)


def test_a_timings_file_without_a_column_is_named(h200):
    with pytest.raises(AnalyzeError, match="'round'"):
        analyze(pd.DataFrame({"impl": ["a"], "method": ["e"], "seconds": [1.0]}), None, {}, h200)
    with pytest.raises(AnalyzeError, match="nobody"):
        analyze(samples({"reference": noisy(1e-3)}), None, {}, h200).impl("nobody")


def test_nothing_measured_is_an_empty_judgement(h200):
    result = analyze(None, None, {}, h200)
    assert result.impls.empty
    assert list(result.impls.columns) == list(IMPL_COLUMNS)


def test_the_callers_time_is_known_whatever_timed_the_device():
    """CUPTI sees the device alone: the caller's seconds come from the other methods, the smaller of the two."""
    rows = [
        {"impl": impl, "method": method, "round": r, "seconds": seconds, "host": host}
        for r in range(12)
        for impl in ("reference", "cuda")
        for method, seconds, host in (("cupti", 5e-5, math.nan), ("event", 5e-5, 3e-5), ("host", 9e-5, 9e-5))
    ]
    result = analyze(pd.DataFrame(rows), None, {}, Roofline("none"))
    assert result.method == "cupti"
    assert set(result.impls["host_time"]) == {3e-5}


@pytest.mark.parametrize("bit", range(10))
def test_the_reasons_of_nvml_that_slow_a_chip(bit):
    """Power cap, hardware slowdown, software and hardware thermal, power brake; not idle, clocks asked for, or sync boost."""
    frame = samples({"c": noisy(1e-5)}).assign(throttle=1 << bit)
    chosen = timing.choose(timing.check(frame))
    assert timing.spreads(chosen)["c"].throttled == (1 << bit in (0x04, 0x08, 0x20, 0x40, 0x80))


@pytest.mark.parametrize(("host", "said"), [(0.7, "0.700x"), (1.08, ""), (2.1, "2.10x")])
def test_a_caller_who_waits_has_a_speedup_of_his_own(h200, host, said):
    device = noisy(30e-6)
    parts = ((1.08, "cupti", 1.0), (host, "host", 4.0))
    timings = pd.concat(
        samples({"reference": times * device, "c": times * device / gain}, method=method)
        for gain, method, times in parts
    )
    row = analyze(timings, None, {}, h200).impl("c")
    assert (row["speedup"], row["caller"].partition(" (")[0]) == (pytest.approx(1.08), said)
    assert (row["caller_speedup"], row["caller_time"]) == pytest.approx((host, 4 * 30e-6 / host), rel=0.02)


def test_an_fp32_answer_of_an_fp64_task_stands_on_fp32s_own_pipe(h200):
    work = Work({"fp64": 1e12}, 1e9, "modelled", 5e8)
    recording = Recording(precisions={"lower": "fp32"})
    timings = samples({"reference": noisy(2700e-6), "lower": noisy(320e-6)})
    assert analyze(timings, None, {"": (work,)}, h200, recording=recording).impl("lower")["roof"] != "tensor_fp32"
