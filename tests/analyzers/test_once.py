"""Each kernel is placed once, however many readers ask and ranges there are, and a recorded one where it should be."""

from collections import Counter
from functools import cached_property
from pathlib import Path

import msgspec
import pytest
from synthetic import launches

from analyzers.lower_bound import Work
from analyzers.metrics import View
from analyzers.rules.findings import explain
from analyzers.verdicts.analysis import analyze
from collectors.caveat import Caveat, unique
from profkit.record.importing import import_files
from profkit.report.derived import write
from profkit.study.study import Study
from roofline.ceilings import Roofline, datasheet_ceilings
from roofline.device import find_spec

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


RECORDED = Path(__file__).parents[3] / "shared" / "data" / "ncu"


def test_caveats_survive_as_plain_rows():
    caveat = Caveat("a", "b", "c")
    rows = [msgspec.to_builtins(caveat), {"what": "only"}]
    assert msgspec.convert(rows, list[Caveat]) == [caveat, Caveat("only")]
    assert unique([caveat, caveat]) == (caveat,)


@pytest.mark.skipif(not (RECORDED / "h200_lean_raw_base.csv").exists(), reason="recorded exports are not here")
def test_a_recorded_fp32_gemm_and_relu():
    from collectors import read

    frame = read(RECORDED / "h200_lean_raw_base.csv")
    spec = find_spec("NVIDIA H200", cc="9.0", sms=132)
    result = analyze(None, frame, {}, Roofline("H200", datasheet_ceilings(spec)))
    gemm, relu = (row for _, row in result.kernels.iterrows())
    assert gemm["flops"] == pytest.approx(2 * 4096**3, rel=1e-3)
    # ncu's own rule row of this kernel prints 77 % of the fp32 peak, at the clock of the run.
    assert gemm["bound_by"] == "fp32"
    # The lean set leaves a pipe out, so that the sum is a lower bound and no share is said of it.
    assert gemm["flops_lower"]
    assert gemm["achieved_flops"] / spec.peaks["fp32"] == pytest.approx(0.77, abs=0.015)
    # Without the counters of a cause nothing is called latency.
    assert relu["bound_by"] == "unknown"
    assert relu["dram_fraction"] == pytest.approx(0.49, abs=0.01)
