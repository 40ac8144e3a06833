"""What binds a kernel, and that each is placed once, however many readers ask."""

import math
from collections import Counter
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest
from synthetic import launches

from analyzers.lower_bound import Work
from analyzers.metrics import View
from analyzers.placement import causes, launch_bound, over_roofs, place
from analyzers.records import tables
from analyzers.rules.findings import explain
from analyzers.verdicts.analysis import analyze
from collectors.caveat import Caveat, unique
from collectors.frame import build
from profkit.record.importing import import_files
from profkit.report.derived import write
from profkit.study.study import Study
from roofline.ceilings import Ceiling, Roofline


def placed(roofline, **counters):
    return place(launches({"time": 1.0, "dram_bytes": 0.0, **counters}), roofline).iloc[0]


@pytest.mark.parametrize(
    ("counters", "bound", "compute"),
    [
        ({"dram_bytes": 4e12, "flop_fp32": 1e12}, "dram", "fp32"),
        ({"dram_bytes": 1e12, "flop_fp32": 60e12}, "fp32", "fp32"),
        ({"dram_bytes": 1e12, "op_tensor_bf16": 800e12, "flop_fp32": 1e12}, "tensor_bf16", "tensor_bf16"),
        # The pipe with the longest time, and not the one with the most operations.
        ({"flop_fp64": 20e12, "op_tensor_bf16": 300e12}, "unknown", "fp64"),
        ({"dram_bytes": 4e12}, "dram", ""),
        ({"dram_bytes": 2.352e12}, "unknown", ""),
        ({"dram_bytes": 2.352e12, "waves": 0.5}, "latency", ""),
        ({"dram_bytes": 1e12, "flop_fp32": 1e12, "occupancy": 0.2}, "latency", "fp32"),
        ({"dram_bytes": np.nan, "flop_fp32": 1e12}, "unknown", "fp32"),
        ({"dram_bytes": np.nan, "flop_fp32": 60e12}, "fp32", "fp32"),
    ],
)
def test_what_holds_a_kernel(h200, counters, bound, compute):
    row = placed(h200, **counters)
    assert (row["bound_by"], row["compute"]) == (bound, compute)


def test_latency_is_not_claimed_without_every_pipe_that_could_bind(h200):
    frame = build({"kernel": ["k"], "time": [1.0], "dram_bytes": [1e12], "cc": ["9.0"]}, tool="ncu")
    assert place(frame, h200).iloc[0]["bound_by"] == "unknown"


def test_without_any_ceiling_nothing_is_claimed():
    row = placed(Roofline("bare"), dram_bytes=1e12, flop_fp32=1e12)
    assert (row["bound_by"], row["compute"]) == ("unknown", "fp32")
    assert row["roof"] == ""


def test_a_chip_without_dram_counters_is_judged_by_l2():
    line = Roofline(
        "orin", (Ceiling("l2", "bandwidth", 1e12, "measured"), Ceiling("fp32", "compute", 1e12, "measured"))
    )
    frame = launches({"time": 1.0, "l2_bytes": 1e11, "flop_fp32": 1e11, "op_tensor_int4": 0.0, "waves": 0.5}, cc="8.7")
    assert place(frame, line).iloc[0]["bound_by"] == "latency"


@pytest.mark.parametrize(
    ("counters", "cause"),
    [
        ({"blocks": 1.0, "sm_count": 132.0, "waves": 0.01}, "one-block"),
        ({"blocks": 16.0, "sm_count": 132.0}, "few-blocks"),
        ({"blocks": 130.0, "sm_count": 132.0, "waves": 0.9}, "small-grid"),
        ({"time": 2e-6, "dram_bytes": 1e3}, "launch"),
        ({"global_load_sectors": 32.0, "global_load_requests": 1.0}, "uncoalesced"),
        ({"output": 1e9, "l2_write": 8e9, "l2_bytes": 1e10}, "uncoalesced"),
        ({"occupancy_limit": 0.25}, "few-warps"),
        ({"occupancy_limit": 0.25, "op_tensor_bf16": 1e14}, ""),
        ({"occupancy_limit": 1.0, "occupancy": 0.6}, "uneven"),
        ({"stall_long_scoreboard": 6.0, "warp_latency": 10.0}, "dependent-loads"),
        ({"issue_active": 0.2}, ""),
        ({}, ""),
    ],
)
def test_latency_is_said_with_its_cause_or_not_at_all(h200, counters, cause):
    frame = launches({"time": 1.0, "dram_bytes": 1e9, **{k: v for k, v in counters.items() if k != "output"}})
    row = place(frame.assign(output=counters.get("output", np.nan)), h200).iloc[0]
    assert (row["cause"], row["bound_by"]) == (cause, "latency" if cause else "unknown")
    assert not cause or all(tables("causes.toml")[cause])


def test_traffic_that_passes_l1_by_has_no_place_under_its_roof(h200):
    line = h200.with_([Ceiling("l1", "bandwidth", 30e12, "measured")])
    frame = launches(
        {"kernel": "tma", "time": 1e-3, "dram_bytes": 1e9, "l2_write": 3e7, "l1_bytes": 1e4, "flop_fp32": 1e9},
        {"kernel": "plain", "time": 1e-3, "dram_bytes": 1e9, "l2_write": 3e7, "l1_bytes": 1e9, "flop_fp32": 1e9},
    )
    rows = place(frame, line)
    assert rows[["l1_bandwidth", "l1_fraction", "intensity_l1"]].isna().all(axis=1).tolist() == [True, False]


def test_an_empty_frame_places_nothing(h200):
    assert place(launches({}).iloc[:0], h200)["bound_by"].tolist() == []


def test_a_tools_own_peak_is_each_launchs_at_its_own_clock():
    roof = Roofline("x", (Ceiling("dram", "bandwidth", 3e12, "ncu"),))
    frame = launches(
        {"time": 1.0, "dram_bytes": 2e12, "peak_dram_bw": 2e12},
        {"time": 1.0, "dram_bytes": 2e12, "peak_dram_bw": 4e12},
        {"time": 1.0, "dram_bytes": 2e12, "peak_dram_bw": np.nan},
    )
    assert place(frame, roof)["dram_fraction"].tolist() == pytest.approx([1.0, 0.5, 2 / 3])


def test_a_point_above_a_roof_is_flagged_not_clamped(h200):
    frame = launches(
        {"kernel": "fine", "time": 1.0, "dram_bytes": 4e12},
        {"kernel": "worst", "time": 1.0, "dram_bytes": 9.6e12, "op_tensor_bf16": 1100e12},
        {"kernel": "over", "time": 1.0, "dram_bytes": 6e12},
    )
    assert place(frame, h200)["dram_fraction"].tolist()[1] == 2.0
    caveats = {d.what.split(" ceiling")[0]: d for d in over_roofs(frame, h200)}
    assert set(caveats) == {"above the dram", "above the tensor_bf16"}
    assert "worst and 1 more" in caveats["above the dram"].what
    assert caveats["above the dram"].how_much == "2.00 of it"
    assert "sparse" in caveats["above the tensor_bf16"].fix
    assert over_roofs(frame.iloc[:1], h200) == ()


@pytest.mark.parametrize(
    ("span", "busy", "kernels", "bound"),
    [
        (100e-6, 30e-6, 10, True),
        (1.0, 0.49, 1, True),
        (1.0, 0.51, 1, False),
        (14.9e-6, 14e-6, 3, True),
        (15.1e-6, 14e-6, 3, False),
        (4e-6, 4e-6, 2, False),
        (40e-6, 38e-6, 16, True),
        (40e-6, 38e-6, 2, False),
        (400e-6, 380e-6, 16, False),
        (math.nan, 1.0, 3, False),
        (1.0, math.nan, math.nan, False),
    ],
)
def test_launch_bound_needs_gaps_or_many_tiny_kernels(span, busy, kernels, bound):
    """Half of the call idle, or three kernels and more that start within twice the published 2.5 us."""
    assert launch_bound(span, busy, kernels) is bound


EDGES = [
    # cause, counter, a value at which it holds, one at which it does not, what else is known
    ("few-blocks", "blocks", 79, 81, {"sm_count": 100}),
    ("launch", "time", 2.49e-6, 2.51e-6, {}),
    ("uncoalesced", "sectors_per_load", 16.6, 16.4, {}),
    ("uncoalesced", "l2_write", 2.01, 1.99, {"output": 1.0, "l2_bytes": 4.0}),
    ("uncoalesced", "l2_bytes", 11.9, 12.1, {"output": 1.0, "l2_write": 3.0}),
    ("few-warps", "occupancy", 0.49, 0.51, {}),
    ("tail", "waves", 1.59, 1.61, {}),
    ("uneven", "occupancy_share", 0.69, 0.71, {}),
    ("dependent-loads", "stall_long_scoreboard", 5.1, 4.9, {"warp_latency": 10.0}),
    ("stalls", "issue_active", 0.69, 0.71, {"warp_latency": 10.0}),
    ("issue", "issue_active", 0.71, 0.69, {}),
]


@pytest.mark.parametrize(("cause", "name", "held", "free", "known"), EDGES)
def test_the_border_of_each_cause(cause, name, held, free, known):
    rows = [{"time": 1.0, **known, name: value} for value in (held, free)]
    assert causes(pd.DataFrame(rows)) == [cause, "issue" if cause == "stalls" else ""]


def test_the_border_of_what_binds_and_of_what_is_above_a_roof(h200):
    shares = (0.599, 0.601, 1.019, 1.021)
    frame = launches(
        *[{"kernel": "k", "time": 1.0, "dram_bytes": share * 4.8e12, "flop_fp32": 1.0} for share in shares]
    )
    assert (place(frame, h200)["bound_by"] == "dram").tolist() == [False, True, True, True]
    assert [len(over_roofs(frame.iloc[[at]], h200)) for at in range(4)] == [0, 0, 0, 1]


NCU = Path(__file__).parents[1] / "data/ncu/h200_default.csv"


@pytest.fixture
def calls(monkeypatch):
    """How often the metrics were derived (each placement does it once), and the ceilings held against the counters."""
    counts = Counter()
    derive, binding = View.derive, View.binding.func

    def counting_derive(view):
        counts["derive"] += 1
        counts["rows"] += len(view.frame)
        return derive(view)

    def counting_binding(use):
        counts["binding"] += 1
        return binding(use)

    monkeypatch.setattr(View, "derive", counting_derive)
    once = cached_property(counting_binding)
    once.__set_name__(View, "binding")
    monkeypatch.setattr(View, "binding", once)
    return counts


def test_importing_places_kernels_once_and_parts_once(tmp_path, calls):
    study = Study(import_files([NCU], tmp_path / "run").run)
    write(study)
    assert study.findings()
    kernels, one_in_two_ranges, parts = 9, 1, 5
    assert (len(study.kernels), len(study.hottest), len(study.metrics)) == (kernels, kernels - 1, parts)
    assert calls == {"derive": 2, "binding": 2, "rows": kernels + one_in_two_ranges + parts}


@pytest.mark.slow
def test_two_thousand_ranges_are_placed_together(h200, calls):
    names = [f"step{n // 40}/layer{n}" for n in range(2000)]
    frame = launches(*[{"impl": n, "kernel": "k", "time": 1e-5, "dram_bytes": 2e7, "flop_fp32": 1e6} for n in names])
    works = {name: (Work({"fp32": 1e6}, 1.9e7),) for name in names}
    analysis = analyze(None, frame, works, h200, reference="")
    explain(analysis, h200, sms=132)
    assert len(analysis.impls) == 2050
    assert calls == {"derive": 2, "binding": 2, "rows": 2000 + 1 + 2050}
    assert analysis.hottest["impl"].tolist() == ["2000 ranges"]
    assert analysis.hottest["time"].tolist() == pytest.approx([2e-2])


def test_a_kernel_of_several_parts_is_added_up(h200):
    rows = [{"impl": impl, "kernel": "k", "time": 1e-5, "dram_bytes": b} for impl, b in (("a", 1e7), ("b", 3e7))]
    hottest = analyze(None, launches(*rows, {"impl": "b", "kernel": "m", "time": 9e-5}), {}, h200).hottest
    assert hottest[["kernel", "impl"]].to_numpy().tolist() == [["m", "b"], ["k", "2 ranges"]]
    assert hottest["dram_bandwidth"].tolist()[1] == pytest.approx(2e12)


def test_caveats_survive_as_plain_rows():
    caveat = Caveat("a", "b", "c")
    rows = [msgspec.to_builtins(caveat), {"what": "only"}]
    assert msgspec.convert(rows, list[Caveat]) == [caveat, Caveat("only")]
    assert unique([caveat, caveat]) == (caveat,)
