"""The time of a call adds up, and no finding promises more than lies above the lower bound: by hand. On recorded runs:
test_true_sentences.py."""

import json
import math

import pytest
from synthetic import launches, noisy, samples

from analyzers.lower_bound import Work
from analyzers.records import plain
from analyzers.rules.findings import examine
from analyzers.rules.rule import HOST, TIME, Subject
from analyzers.verdicts.analysis import analyze
from analyzers.waterfall import CALL, EXCESS, GAPS, KERNELS, LOWER_BOUND, SLICE_KINDS, WORK, _at_roof, waterfalls
from roofline.ceilings import Ceiling


def test_a_kernel_at_a_ceiling_needs_that_much_though_another_pipe_was_not_counted():
    """An import of ncu's roofline set was unexplained for want of counters, bound by fp32 beside it."""
    row = {"time": 2e-6, "roof_time": math.nan, "roof_share": 0.75, "roof": "fp32", "bound_by": "fp32"}
    assert _at_roof(row) == pytest.approx(1.5e-6)
    assert math.isnan(_at_roof({**row, "bound_by": "unknown"}))
    assert _at_roof({**row, "roof_time": 1.6e-6}) == 1.6e-6


def test_each_slice_by_hand(h200):
    work = Work({}, 4.8e6)
    copy = {"impl": "a", "kernel": "copy", "time": 3e-6, "dram_bytes": 9.6e6, "blocks": 4.0, "sm_count": 132.0}
    analysis = analyze(samples({"a": noisy(5e-6, rel=0)}), launches(copy), {"": (work,)}, h200, reference="")
    one = waterfalls(analysis)["a"]
    seconds = {part.kind: part.seconds for part in one.slices}
    assert seconds == pytest.approx({LOWER_BOUND: 1e-6, WORK: 1e-6, EXCESS: 1e-6, GAPS: 2e-6})
    (excess,) = [part for part in one.slices if part.kind == EXCESS]
    assert (excess.kernel, excess.cause) == ("copy", "dram")
    assert json.dumps(plain(one), allow_nan=False)
    assert set(SLICE_KINDS) == {LOWER_BOUND, WORK, EXCESS, KERNELS, CALL, GAPS}


def test_what_two_tools_differ_by_about_one_launch_is_no_gap(h200):
    """1.39 us of gaps were shown beside a single launch."""
    copy = {"impl": "a", "kernel": "copy", "time": 9.8e-6, "dram_bytes": 9.6e6, "blocks": 4.0, "sm_count": 132.0}
    timed = {"a": noisy(10e-6, rel=0)}

    def kinds(method, *rows):
        return waterfalls(analyze(samples(timed, method), launches(*rows), {}, h200, reference=""))["a"]

    one = kinds("cupti", copy)
    assert (one.of(GAPS), one.kernels) == (0, {"copy": pytest.approx(10e-6)})
    assert one.of(EXCESS) == pytest.approx(8e-6)
    # Two launches have a gap between them; an event's time has the launch in it; a fifth of the call is something else.
    assert kinds("cupti", {**copy, "time": 4.9e-6}, {**copy, "kernel": "b", "time": 4.9e-6}).of(GAPS) > 0
    assert kinds("event", copy).of(GAPS) > 0
    assert kinds("cupti", {**copy, "time": 8e-6}).of(GAPS) == pytest.approx(2e-6)


def test_a_kernel_at_its_l2_roof_is_at_a_roof(h200):
    """Said before: longer than its l2 ceiling asks for, of what it took beyond the DRAM ceiling."""
    busy = {"impl": "a", "kernel": "k", "time": 10e-6, "dram_bytes": 4.8e6, "blocks": 999.0, "sm_count": 132.0}
    line = h200.with_([Ceiling("l2", "bandwidth", 8e12, "measured")])
    analysis = analyze(None, launches({**busy, "l2_bytes": 8e-6 * 8e12}), {"": (Work({}, 4.8e6),)}, line, reference="")
    row = analysis.kernels.iloc[0]
    assert (row["bound_by"], row["roof"], row["roof_share"]) == ("l2", "l2", pytest.approx(0.8))
    assert row["attainable_fraction"] == pytest.approx(0.1)
    one = waterfalls(analysis)["a"]
    assert {part.kind: part.seconds for part in one.slices} == pytest.approx(
        {LOWER_BOUND: 1e-6, WORK: 7e-6, EXCESS: 2e-6}
    )
    call = analysis.impl("a")
    assert (call["roof"], call["roof_share"]) == ("l2", pytest.approx(0.8))


def test_a_kernel_with_a_row_for_each_range_takes_the_time_of_both(h200):
    twice = [{"impl": f"a{inner}", "kernel": "copy", "time": 1e-6, "dram_bytes": 4.8e6} for inner in ("", "/b")]
    analysis = analyze(samples({"a": noisy(5e-6, rel=0)}), launches(*twice), {}, h200, reference="")
    assert waterfalls(analysis)["a"].kernels == {"copy": pytest.approx(2e-6)}


def test_a_launch_that_cannot_go_is_no_loss(h200):
    line = h200.with_([Ceiling("launch", "time", 1.2e-6, "measured")])
    tiny = {"impl": "a", "time": 1.5e-6, "dram_bytes": 4.8e3, "blocks": 4.0, "sm_count": 132.0}
    analysis = analyze(
        samples({"a": noisy(1.6e-6, rel=0)}), launches(tiny), {"": (Work({}, 4.8e3),)}, line, reference=""
    )
    one = waterfalls(analysis)["a"]
    assert one.of(LOWER_BOUND) == pytest.approx(1.2e-6)
    assert one.of(EXCESS) + one.of(GAPS) == pytest.approx(0.4e-6)


def test_without_counters_or_lower_bound_the_rest_is_said_to_be_unknown(h200):
    one = waterfalls(analyze(samples({"a": noisy(5e-6, rel=0)}), None, {}, h200, reference=""))["a"]
    assert math.isnan(one.lower_bound)
    assert plain(one)["lower_bound"] is None
    assert [part.kind for part in one.slices] == [CALL]


def test_a_bound_is_capped_at_the_lower_bound_and_wins_do_not_overlap():
    """44 us were promised where the lower bound is 41 us away."""
    counted = {"blocks": 4.0, "sm_count": 132.0, "atomic_requests": 9.0, "reduction_requests": 0.0}
    kernel = Subject("cuda", "k", 44e-6, counted, {"dram": 1e-7})
    found = [one for one in examine([kernel], {"cuda": 44e-6}, lower_bounds={"cuda": 3e-6}) if one.severity == TIME]
    assert [one.upper_bound for one in found] == pytest.approx([41e-6] * len(found))
    assert [one.win for one in found] == pytest.approx([41e-6] + [0.0] * (len(found) - 1))
    assert len(found) > 1


def test_what_a_kernel_could_win_is_claimed_once():
    """18.9 us were said to lie beyond two findings above that spoke of the same 42.8 us of the same kernel."""
    values = {"tensor_share": 1.0, "flops": 1e9, "issue_active": 0.5, "warp_latency": 10.0, "stall_barrier": 5.0}
    slow_ = Subject("c", "gemm", 80e-6, values, {"tensor_bf16": 40e-6})
    moves = Subject("c", "move", 90e-6, {"dram_fraction": 0.7, "occupancy": 0.9}, {"dram": 63e-6}, {"dram": 4e12})
    known = {"kernels": 9.0, "distinct": 2.0, "bytes": 9e6, "compulsory_bytes": 1e6, "computing_share": 0.4}
    call = Subject("c", "", 200e-6, {**known, "lower_bound_time": 10e-6}, moving=frozenset({"move"}))
    found = [
        one for one in examine([call, slow_, moves], {"c": 200e-6}, lower_bounds={"c": 10e-6}) if one.severity == TIME
    ]
    told = {one.rule: one.win for one in found}
    assert [one.rule for one in found] == ["fuse", "tensor-idle", "stalls", "dram-bound"]
    assert told == pytest.approx({"fuse": 120e-6, "tensor-idle": 40e-6, "stalls": 0.0, "dram-bound": 0.0})


def test_the_callers_time_is_no_slice_of_the_devices():
    host = Subject("cuda", "", 50e-6, {"host_time": 150e-6})
    one = next(f for f in examine([host], {"cuda": 50e-6}) if f.severity == HOST)
    assert one.upper_bound == pytest.approx(100e-6)
    assert math.isnan(one.win)
