"""Each kernel is placed once, however many readers ask, and however many ranges a program has."""

from collections import Counter
from functools import cached_property
from pathlib import Path

import pytest
from synthetic import launches

from analyzers.lower_bound import Work
from analyzers.metrics import View
from analyzers.rules.findings import explain
from analyzers.verdicts.analysis import analyze
from profkit.record.importing import import_files
from profkit.report.derived import write
from profkit.study.study import Study

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
