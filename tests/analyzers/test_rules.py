"""Rules on kernels recorded on an H200 that were built to trigger them, and on twins built not to."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from string import Formatter

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.kernels.names import compiled
from analyzers.lower_bound import Work
from analyzers.rules.findings import RULES, examine, explain
from analyzers.rules.rule import COLLECT, LANGUAGES, TIME, Finding, Subject
from analyzers.rules.subjects import computing_shares, kernel_subjects
from analyzers.verdicts.analysis import analyze
from collectors import read
from roofline.ceilings import Roofline, ncu_ceilings

RECORDED = Path(__file__).parents[1] / "data/rules/triggers_h200.csv"
PAIRS = [
    ("dram-bound", "", "stream_copy", "few_blocks_sum"),
    ("dram-bound", "headroom", "padded_transpose", "stream_copy"),
    ("uncoalesced", "", "scattered_load", "stream_copy"),
    ("bank-conflicts", "", "conflict_transpose", "padded_transpose"),
    ("l2-bound", "waits", "cached_sweep", "stream_copy"),
    ("low-occupancy", "shared-memory", "chase_shared_limited", "chase_full"),
    ("low-occupancy", "block-size", "chase_small_blocks", "chase_full"),
    ("low-occupancy", "registers", "chase_registers", "chase_full"),
    ("few-blocks", "", "few_blocks_sum", "stream_copy"),
    ("tail-wave", "", "tail_wave", "tail_wave 2"),
    ("stalls", "long_scoreboard", "chase_full", "fma_loop"),
    ("pipe-bound", "full", "fma_loop", "unfused_loop"),
    ("issue-bound", "", "unfused_loop", "doubled_loop"),
    ("precision", "maybe", "doubled_loop", "fma_loop"),
    ("use-tensor-cores", "", "sgemm_tile", "fma_loop"),
    ("tensor-idle", "hopper", "wmma_gemm", "sgemm_tile"),
    ("atomics", "", "atomic_all", "atomic_block"),
    ("local-memory", "", "local_array", "scattered_load"),
]
FIXES = [
    ("bank-conflicts", "conflict_transpose", "padded_transpose"),
    ("tail-wave", "tail_wave", "tail_wave 2"),
    ("precision", "doubled_loop", "fma_loop"),
    ("atomics", "atomic_all", "atomic_block"),
    ("uncoalesced", "scattered_load", "stream_copy"),
    ("few-blocks", "few_blocks_sum", "atomic_block"),
]
FIRST = {
    "stream_copy": "dram-bound",
    "scattered_load": "uncoalesced",
    "conflict_transpose": "bank-conflicts",
    "few_blocks_sum": "few-blocks",
    "fma_loop": "pipe-bound",
    "unfused_loop": "issue-bound",
    "doubled_loop": "precision",
    "atomic_all": "atomics",
    "local_array": "local-memory",
    "chase_shared_limited": "low-occupancy",
    "wmma_gemm": "l2-bound",
    "sgemm_tile": "use-tensor-cores",
    "cached_sweep": "l2-bound",
}


def roof_of(frame):
    peaks = {name: float(frame[name].median()) for name in frame if name.startswith("peak_")}
    return Roofline("NVIDIA H200").with_(ncu_ceilings(peaks))


@pytest.fixture(scope="module")
def recorded():
    """(findings, seconds by kernel) of the recording; every kernel is an implementation of its own."""
    frame = read(RECORDED)
    names, seen = [], {}
    for name in frame["kernel"]:
        short = name.partition("(")[0]
        seen[short] = seen.get(short, 0) + 1
        names.append(short if seen[short] == 1 else f"{short} {seen[short]}")
    frame["impl"] = names
    roof = roof_of(frame)
    analysis = analyze(None, frame, {}, roof)
    times = {s.impl: s.time for s in kernel_subjects(analysis, roof, 132)}
    return explain(analysis, roof, sms=132), times


def found(findings, rule, impl):
    return [f for f in findings if f.rule == rule and f.impl == impl and f.severity != COLLECT]


@pytest.mark.parametrize(("rule", "variant", "hit", "miss"), PAIRS)
def test_a_rule_fires_where_it_should_and_not_on_the_twin(recorded, rule, variant, hit, miss):
    findings, _ = recorded
    (one,) = found(findings, rule, hit)
    assert one.variant == variant
    assert one.evidence
    assert one.next_step
    assert one.words()[2]
    other = found(findings, rule, miss)
    assert not other or (variant and other[0].variant != variant)


@pytest.mark.parametrize(("rule", "before", "after"), FIXES)
def test_the_bound_holds_when_the_fix_is_applied(recorded, rule, before, after):
    findings, times = recorded
    (one,) = found(findings, rule, before)
    won = times[before] - times[after]
    assert 0 < won <= one.upper_bound


@pytest.mark.parametrize(("impl", "rule"), FIRST.items())
def test_the_first_finding_is_the_one_the_kernel_was_built_for(recorded, impl, rule):
    findings, _ = recorded
    mine = [f for f in findings if f.impl == impl]
    top = mine[0]
    assert rule in {f.rule for f in mine if f.severity == TIME and f.ratio > top.ratio - 0.03}, top.title


def test_bounds_are_within_the_call_and_ranked(recorded):
    findings, _ = recorded
    timed = [f for f in findings if f.severity == TIME]
    assert all(0 <= f.ratio <= 1 for f in timed)
    levels = [f.severity for f in findings]
    assert levels == sorted(levels, key=["time", "host", "hint", "collect"].index)
    assert all(0 <= f.likely <= f.upper_bound for f in timed)
    shares = [f.ratio * f.likely / f.upper_bound if f.upper_bound else 0.0 for f in timed]
    assert all(a >= b - 0.021 for a, b in pairwise(shares))


def rules_of(*subjects):
    return [f.rule for f in examine(subjects, {s.impl: s.time for s in subjects}) if f.severity != COLLECT]


@pytest.mark.parametrize(
    ("kernel", "share", "variant", "step"),
    [
        ("mine", 0.9, "one", "look at this kernel first"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_nhwc_cudnn", 0.9, "one", "it is cuDNN's kernel"),
        ("mine", 0.3, "chain", "fuse the chain"),
    ],
)
def test_without_counters_the_kernel_that_takes_the_call_is_named(kernel, share, variant, step):
    """Said before of a convolution that takes 97 % of four kernels' time: fuse the chain, one kernel near the lower bound."""
    values = {"kernels": 4.0, "counted_time": 1e-3, "lower_bound_time": 1e-5, "lower_bound_ratio": 100.0}
    values["longest_share"] = share
    subject = Subject("cuda", "", 1e-3, values, text={"source": "modelled", "longest": kernel})
    (one,) = [f for f in examine([subject], {"cuda": 1e-3}, lower_bounds={"cuda": 1e-5}) if f.severity != COLLECT]
    assert (one.rule, one.variant) == ("modelled", variant)
    assert one.kernel == (kernel if variant == "one" else "")
    assert one.next_step.startswith(step)
    assert one.upper_bound == pytest.approx(0.9e-3 if variant == "one" else 0.99e-3)
    assert "{" not in "".join(one.words("zh"))


def test_each_range_has_its_own_work():
    """What one range declares says nothing about the kernels of another."""
    frame = read(RECORDED).query("kernel.str.startswith('stream_copy') or kernel.str.startswith('doubled_loop')")
    frame = frame.assign(impl=["copy", "doubled"])
    roof = roof_of(frame)
    own = {"copy": (Work({}, 2.0**29),), "doubled": (Work({"fp32": 2.0 * 132 * 8 * 256 * 4096 * 8}, 1e6),)}
    analysis = analyze(None, frame, own, roof)
    whole = replace(analysis, needs={"": tuple(work for one in own.values() for work in one)})
    told, shared = ({(f.impl, f.rule): f for f in explain(one, roof, sms=132)} for one in (analysis, whole))
    assert told["doubled", "precision"].variant == ""
    assert told["doubled", "precision"].params["wanted"] == "fp32"
    assert shared["copy", "dram-bound"].upper_bound >= told["copy", "dram-bound"].upper_bound


@pytest.mark.parametrize(
    ("share", "values", "variant"),
    [
        (0.72, {"occupancy": 0.935}, "headroom"),
        (0.72, {}, "headroom"),
        (0.72, {"occupancy": 0.4}, "headroom"),
        (0.92, {"dram_bytes": 2.1e8}, "least"),
        (0.92, {"dram_bytes": 4e8}, ""),
        (0.92, {}, ""),
    ],
)
def test_no_advice_against_what_was_counted(share, values, variant):
    """More resident warps at 93.5 % occupancy, and fewer bytes of a kernel below the compulsory ones, are no advice."""
    known = {"dram_fraction": share, "compulsory_bytes": 2e8, **values}
    subject = Subject("cuda", "k", 100e-6, known, {"dram": share * 100e-6}, {"dram": 4e12})
    one = next(f for f in examine([subject], {"cuda": 100e-6}) if f.rule == "dram-bound")
    assert one.variant == variant
    for lang, warps in (("en", "warps"), ("zh", "线程束")):
        assert warps not in one.words(lang)[1]
        assert "{" not in "".join(one.words(lang))
    if variant == "headroom":
        assert "10% less time" in one.words()[2]


@pytest.mark.parametrize("told", [{"compute_throughput": 0.81}, {"memory_throughput": 0.62}])
def test_few_warps_are_no_finding_where_ncu_tells_a_busy_unit(told):
    known = {"occupancy": 0.33, "occupancy_limit": 0.33, "dram_fraction": 0.1, "waves": 20.0, "registers": 128.0}
    for more, found in (({}, True), (told, False)):
        subject = Subject("cuda", "k", 1e-3, known | more, {"dram": 1e-4}, {"dram": 4e12})
        assert ("low-occupancy" in {f.rule for f in examine([subject], {"cuda": 1e-3})}) is found


@pytest.mark.parametrize("text", [{}, {"compiled": "yes"}])
def test_what_is_compiled_is_not_told_to_compile(text):
    known = {"kernels": 24.0, "counted_time": 40e-6, "lower_bound_time": 1e-8, "lower_bound_ratio": 50.0}
    known |= {"attainable_fraction": 0.1, "bytes": 2e6, "compulsory_bytes": 1e5, "distinct": 2.0}
    found_ = []
    for share in (0.0, 0.6):
        values = {**known, "computing_share": share}
        found_ += examine([Subject("c", "", 50e-6, values, text={"source": "declared", **text})], {"c": 50e-6})
    found_ = [one for one in found_ if one.severity != COLLECT]
    steps = [one.words(lang)[1] for one in found_ for lang in LANGUAGES]
    assert {one.rule for one in found_} == {"launch-bound", "fuse", "modelled"}
    assert any("Triton, torch.compile" in step for step in steps) == (not text)
    assert all("compiled" in one.variant for one in found_) == bool(text)


@pytest.mark.parametrize(
    ("impl", "kernels", "made"),
    [
        ("compiled", (), True),
        ("torch_compile", (), True),
        ("cuda", ("triton_poi_fused_gelu_view_2", "nvjet_sm90_tst"), True),
        ("cuda", ("triton_kernel", "my_triton_poi_1"), False),
        ("cuda", (), False),
    ],
)
def test_what_torch_compile_made_is_known_by_its_names(impl, kernels, made):
    assert compiled(impl, kernels) is made


@pytest.mark.parametrize(("time", "variant"), [(8e-6, ""), (24e-6, ""), (25e-6, "long"), (40e-3, "long")])
def test_a_long_kernel_of_a_small_grid_is_not_near_the_launch_lower_bound(time, variant):
    """Said before, of 40 ms: start-up and memory latency show, and the time will be near the launch lower bound."""
    subject = Subject("", "k", time, {"waves": 0.2, "blocks": 200.0, "sm_count": 128.0}, {"dram": 0.1 * time})
    one = next(f for f in examine([subject], {"": time}) if f.rule == "small-grid")
    assert one.variant == variant
    assert ("empty launch" in one.words()[2]) == (variant == "")


def test_a_rule_without_its_counters_says_what_to_collect():
    bare = Subject("cuda", "k", 1e-4, {"dram_fraction": 0.7}, {"dram": 7e-5}, {"dram": 4e12})
    missing = {f.rule: f for f in examine([bare], {"cuda": 1e-4}) if f.severity == COLLECT}
    assert "shared_load_wavefronts" in missing["bank-conflicts"].title
    assert "--deep" in missing["stalls"].next_step
    assert "dram-bound" not in missing
    assert "dram-excess" not in {f.rule for f in missing.values() if "compulsory" in f.title}


def test_every_rule_has_words_in_both_languages():
    for known in RULES.values():
        for variant in known.variants:
            texts = [known.words(variant, lang) for lang in LANGUAGES]
            assert all(map(all, texts)), (known.name, variant)
            english, chinese = (
                [{place for _, place, _, _ in Formatter().parse(text) if place} for text in words] for words in texts
            )
            assert english == chinese, (known.name, variant)


def test_a_variant_without_words_has_the_rules_own():
    params = {"issue": "1%", "reason": "wait", "share": "2%"}
    one = Finding("stalls", "k", "cuda", TIME, (), 0.0, 0.0, 0.0, params, "no-such")
    assert one.title.startswith("instructions issue in 1% of the cycles; a warp waits")
    assert one.words("zh")[0].startswith("指令发射率 1%")


SHARES = st.floats(0, 1.2) | st.just(math.nan)


_COUNTED = """
dram_fraction l2_fraction occupancy occupancy_limit waves blocks sm_count issue_active warp_latency stall_barrier
flops tensor_share compute_fraction sectors_per_load global_load_sectors atomic_requests
reduction_requests dram_bytes compulsory_bytes l1_bytes local_load_sectors local_store_sectors
shared_load_wavefronts load_conflict_share inst_fp32_fma flop_fp64 flop_fp32 flop_fp16 threads_per_inst
"""


@given(
    st.dictionaries(st.sampled_from(_COUNTED.split()), SHARES),
    st.dictionaries(st.sampled_from(["dram", "l2", "fp32", "fp64", "tensor_bf16"]), SHARES),
)
def test_no_counters_break_a_rule_and_no_bound_exceeds_the_time(values, roofs):
    subject = Subject("cuda", "sgemm", 1.0, values, roofs, {"dram": 1.0, "fp32": 1.0, "fp64": 0.5, "tensor_tf32": 8.0})
    for finding in examine([subject], {"cuda": 1.0}):
        assert math.isnan(finding.upper_bound) or 0 <= finding.upper_bound <= 1
        assert finding.title


def streaming(**values):
    known = {"l2_bytes": 4e9, "compulsory_bytes": 5e8, "work_intensity": 0.0, "dram_fraction": 0.2, **values}
    return Subject("cuda", "k", 1e-3, known, {"dram": 2e-4, "l2": 3e-4}, {"dram": 4e12})


def test_without_access_counters_l2_traffic_raises_the_suspicion():
    one = next(f for f in examine([streaming()], {"cuda": 1e-3}) if f.rule == "uncoalesced")
    assert (one.severity, one.variant) == (TIME, "suspected")
    assert one.upper_bound == pytest.approx(1e-3 - 5e8 / 4e12)
    assert "uncoalesced" not in rules_of(streaming(work_intensity=20.0))
    # An argmax in 32 blocks wrote 5 MB to L2 for 256 bytes of output: 0.4 % of its time at the ceiling.
    stores = {"l2_write": 2e9, "output": 1e5}
    assert "uncoalesced" in rules_of(streaming(**stores))
    idle = Subject("cuda", "k", 0.1, streaming(**stores).values, {"dram": 2e-4, "l2": 3e-4}, {"dram": 4e12})
    assert "uncoalesced" not in rules_of(idle)
    assert "uncoalesced" not in rules_of(streaming(l2_bytes=1e9))


def test_bounds_rest_on_the_roof_that_is_shown():
    values = {"dram_fraction": 0.9, "dram_bytes": 360e6, "compulsory_bytes": 320e6}
    subject = Subject("cuda", "k", 100e-6, values, {"dram": 90e-6}, {"dram": 4e12})
    one = examine([subject], {"cuda": 100e-6})[0]
    assert one.upper_bound == pytest.approx(20e-6)


@pytest.mark.parametrize(
    ("values", "variant"),
    [
        ({"attainable_fraction": 0.8, "kernels": 1.0}, "near"),
        ({"attainable_fraction": 0.01, "kernels": 512.0}, "chain"),
        ({"attainable_fraction": 0.01, "kernels": 1.0}, ""),
        ({"attainable_fraction": 0.8}, "near-cpu"),
        ({"attainable_fraction": 0.01}, "cpu"),
        ({"attainable_fraction": 0.01, "threads": 1.0, "sm_count": 20.0}, "cpu-threads"),
        ({"attainable_fraction": 0.01, "threads": 1.0, "sm_count": 2.0}, "cpu-loops"),
        ({"attainable_fraction": 0.01, "threads": 1.9, "sm_count": 2.0}, "cpu"),
    ],
)
def test_without_counters_the_work_speaks(values, variant):
    known = {"lower_bound_time": 1e-6, "lower_bound_ratio": 50.0, **values}
    text = {"source": "declared", "bound_by": "fp32"} | ({"cpu": "yes"} if "cpu" in variant else {})
    subject = Subject("cuda", "", 50e-6, known, text=text)
    one = examine([subject], {"cuda": 50e-6})[0]
    assert (one.rule, one.variant) == ("modelled", variant)
    # What all threads win is no more than the time on them, not all that lies above the lower bound.
    assert one.upper_bound == pytest.approx(47.5e-6 if variant == "cpu-threads" else 49e-6)
    assert one.moves is (variant == "near-cpu")


def test_atomics_of_a_tile_scheduler_are_no_finding():
    """TMA moves the data without one global request: all that are counted are atomics, and they are few."""
    counted = {"atomic_requests": 1156.0, "reduction_requests": 0.0, "global_load_requests": 0.0, "l2_bytes": 220e6}
    assert "atomics" not in rules_of(Subject("cuda", "k", 83e-6, counted, {"dram": 4e-5}))
    assert "atomics" in rules_of(Subject("cuda", "k", 83e-6, {**counted, "l2_bytes": 1e5}, {"dram": 4e-5}))


def test_fusing_changes_no_precision():
    """The bound of a chain rests on the lower bound of the pipe it ran on, not on that of the task's lowest precision."""
    frame = read(RECORDED).query("kernel.str.startswith('fma_loop') or kernel.str.startswith('doubled_loop')")
    frame = frame.assign(impl="reference", dram_bytes=2e9)
    flops = 0.2 * float(frame[["flop_fp32", "flop_fp64"]].to_numpy().sum())
    roof = roof_of(frame)
    analysis = analyze(None, frame, {"": (Work({"tensor_bf16": flops}, 1e6),)}, roof)
    pipe = str(analysis.impl("reference")["lower_bound_own_bound_by"])
    fuse = next(one for one in explain(analysis, roof, sms=132) if one.rule == "fuse")
    assert pipe in ("fp32", "fp64")
    total = float(frame["time"].sum())
    least = max(flops / roof.peak(pipe), total * computing_shares(analysis.kernels)["reference"])
    assert fuse.upper_bound == pytest.approx(total - least)


@pytest.mark.parametrize(("computing", "variant", "bound"), [(0.0, "", 90e-6), (0.6, "between", 40e-6)])
def test_fusing_leaves_the_computing_kernels_as_long_as_they_are(computing, variant, bound):
    known = {"kernels": 9.0, "distinct": 5.0, "bytes": 9e6, "compulsory_bytes": 1e6}
    known |= {"lower_bound_time": 10e-6, "computing_share": computing}
    one = next(f for f in examine([Subject("cuda", "", 100e-6, known)], {"cuda": 100e-6}) if f.rule == "fuse")
    assert (one.variant, one.upper_bound) == (variant, pytest.approx(bound))


def test_a_kernel_computes_when_no_memory_roof_is_nearer():
    kernels = pd.DataFrame(
        {
            "impl": ["a", "a", "a", "b"],
            "share": [0.5, 0.3, 0.2, 1.0],
            "compute_fraction": [0.8, 0.3, math.nan, 0.9],
            "dram_fraction": [0.2, 0.9, 0.5, 0.1],
        }
    )
    assert computing_shares(kernels) == {"a": 0.5, "b": 1.0}
    assert computing_shares(kernels.drop(columns="share")) == {}


@pytest.mark.parametrize(
    ("values", "units"),
    [
        # One unit in both sums: L1's way of loads and stores.
        ({"compute": 0.93, "memory": 0.932, "l1": 0.95, "l2": 0.1, "dram": 0.05}, "L1/TEX 95%"),
        ({"compute": 0.93, "memory": 0.932}, "L1/TEX 93%"),
        ({"compute": 0.4, "memory": 0.74, "l1": 0.6, "l2": 0.74, "dram": 0.3}, "L2 74%, L1/TEX 60%"),
        ({"compute": 0.2, "memory": 0.7}, "Memory 70%"),
        ({"compute": 0.69, "memory": 0.66, "l1": 0.82, "l2": 0.2}, "L1/TEX 82%, Compute (SM) 69%"),
        ({"compute": 0.77, "memory": 0.2}, "Compute (SM) 77%"),
        ({"compute": 0.77, "memory": 0.2, "alu": 0.61, "fma": 0.76}, "FMA 76%, ALU 61%"),
        ({"compute": 0.6, "alu": 0.6}, "ALU 60%"),
        ({"compute": 0.59, "memory": 0.59, "l1": 0.7}, ""),
        ({}, ""),
    ],
)
def test_a_unit_that_ncu_itself_finds_busy_is_named(values, units):
    """The unit whose share is that of ncu's sum, then what else is near its peak; nothing says that nothing is near."""
    pipes = ("alu", "fma")
    known = {f"pipe_{name}" if name in pipes else f"{name}_throughput": value for name, value in values.items()}
    deep = {"issue_active": 0.75, "warp_latency": 9.0, "stall_long_scoreboard": 6.0, "blocks": 9.0, "waves": 0.3}
    subject = Subject("cuda", "k", 1e-4, known)
    told = [f for f in examine([subject], {"cuda": 1e-4}) if f.severity != COLLECT]
    assert [f.params["units"] for f in told if f.rule == "busy-unit"] == ([units] if units else [])
    for one in told:
        assert "{" not in "".join([*one.words(), *one.words("zh")])
        assert one.upper_bound == pytest.approx(1e-4 * (1 - float(units.split("%")[0].split()[-1]) / 100), abs=1e-6)
    both = rules_of(replace(subject, values={**known, **deep, "sm_count": 132.0}))
    assert not units or not {"issue-bound", "stalls", "latency", "few-blocks", "small-grid"} & set(both)


def test_a_ceiling_that_is_near_says_more_than_ncus_sums():
    known = {"memory_throughput": 0.9, "dram_throughput": 0.9, "dram_fraction": 0.9, "l1_throughput": 0.8}
    subject = Subject("cuda", "k", 1e-4, known, {"dram": 0.9e-4}, {"dram": 4e12})
    assert rules_of(subject) == ["dram-bound"]
