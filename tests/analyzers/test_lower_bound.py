import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.errors import AnalyzeError
from analyzers.lower_bound import Work, combine, gate, lower_bound_time
from analyzers.verdicts.speedup import SLACK
from roofline.ceilings import Ceiling, Roofline

positive = st.floats(1e3, 1e18)


def roof(fp32, dram, **tensor):
    more = [Ceiling(f"tensor_{name}", "compute", peak, "datasheet") for name, peak in tensor.items()]
    own = Ceiling("fp32", "compute", fp32, "datasheet"), Ceiling("dram", "bandwidth", dram, "datasheet")
    return Roofline("d", (*own, *more))


@given(positive, positive, positive, positive)
def test_lower_bound_is_the_larger_side_and_meets_the_roofline(flops, moved, peak, bandwidth):
    line = roof(peak, bandwidth)
    lower_bound = lower_bound_time(Work({"fp32": flops}, moved), line)
    assert lower_bound.time == max(flops / peak, moved / bandwidth)
    assert flops / lower_bound.time == pytest.approx(line.attainable(flops / moved, "fp32"), rel=1e-9)
    assert lower_bound.hard <= lower_bound.time


def test_pipes_overlap_but_tensor_paths_share_a_unit():
    line = roof(1e12, 1e12, bf16=10e12, fp8=20e12)
    lower_bound = lower_bound_time(Work({"fp32": 3e12, "tensor_bf16": 20e12, "tensor_fp8": 30e12}, 1e12), line)
    assert lower_bound.time == pytest.approx(2.0 + 1.5)
    assert lower_bound.bound_by == "tensor_bf16"
    assert lower_bound.hard == pytest.approx(3.5)


def test_unknown_roof_gives_a_lower_bound_that_says_so():
    line = roof(1e12, 1e12)
    lower_bound = lower_bound_time(Work({"tensor_bf16": 5e12}, 2e12), line)
    assert (lower_bound.time, lower_bound.bound_by) == (2.0, "dram")
    nothing = lower_bound_time(Work({"fp32": 1.0}, 1.0), Roofline("bare"))
    assert math.isnan(nothing.time)
    assert nothing.bound_by == "unknown"
    assert not nothing.forbids(0.0)


def test_what_may_stay_in_the_cache_is_not_impossible():
    line = roof(1e15, 1e12)
    work = Work({}, 100e6, written=50e6)
    assert lower_bound_time(work, line).hard == pytest.approx(50e-6)
    assert lower_bound_time(work, line, l2_bytes=20e6).hard == pytest.approx(80e-6)
    assert lower_bound_time(work, line, l2="warm").hard == 0.0
    assert lower_bound_time(work, line, l2="warm", l2_bytes=20e6).hard == pytest.approx(80e-6)
    copy = lower_bound_time(Work({}, 100e6), line)
    assert copy.hard == pytest.approx(100e-6)
    assert lower_bound_time(Work({"fp32": 1e12}, 4e12), roof(1e12, 1e12), l2="warm").hard == pytest.approx(1.0)


def test_combine_prefers_the_declaration_and_fills_its_gaps():
    modelled = Work({"fp32": 10.0}, 100.0, "modelled", written=40.0)
    least = combine(Work({"fp32": 20.0}, math.nan, "declared"), modelled)
    assert (least.source, least.total, least.bytes, least.written) == ("declared", 20.0, 100.0, 40.0)
    assert combine(None, modelled) is modelled
    assert combine(None, None) is None


@pytest.mark.parametrize(
    "bad", [{"flops": {"fp32": -1.0}}, {"flops": {}, "bytes": math.inf}, {"flops": {}, "source": "guessed"}]
)
def test_bad_work_is_refused(bad):
    with pytest.raises(AnalyzeError):
        Work(**bad)


def test_work_from_plain_data():
    work = Work({"tensor_bf16": 3.0}, 7.0, "modelled", 2.0, "note")
    assert Work.from_dict(work.to_dict()) == work
    assert math.isnan(Work.from_dict({"flops": {}, "bytes": None, "read": 3}).bytes)
    with pytest.raises(AnalyzeError, match=r"\$\.flops"):
        Work.from_dict({"flops": {"fp32": "many"}})


def test_a_roof_that_is_only_measured_accuses_nobody_by_a_little():
    measured = Roofline("CPU").with_([Ceiling("fp32", "compute", 1e11, "measured")])
    lower_bound = lower_bound_time(Work({"fp32": 1e11}, 0.0), measured)
    assert (lower_bound.time, lower_bound.hard) == (pytest.approx(1.0), pytest.approx(0.8))
    assert not lower_bound.forbids(0.85)
    assert lower_bound.forbids(0.7)
    known = measured.with_([Ceiling("fp32", "compute", 1.1e11, "datasheet")])
    assert lower_bound_time(Work({"fp32": 1e11}, 0.0), known).hard == pytest.approx(1 / 1.1)


def test_a_time_near_the_lower_bound_is_the_noise_of_the_ceilings():
    lower_bound = lower_bound_time(Work({}, 1e12), roof(1e12, 1e12))
    assert gate(lower_bound.time, lower_bound) is gate(0.985 * lower_bound.time, lower_bound) is None
    soft = roof(1e12, 2e12).with_([Ceiling("dram", "bandwidth", 1e12, "measured")])
    lower_bound = lower_bound_time(Work({}, 1e12), soft)
    assert gate(1.01, lower_bound) is gate(0.985, lower_bound) is None
    assert "faster than the lower bound" in gate(0.975, lower_bound).what
    hard = gate(0.25, lower_bound, "mine")
    assert hard.what.startswith("mine: ")
    assert "impossible" in hard.what
    assert "0.50" in hard.how_much
    assert "impossible" not in gate(0.975, lower_bound).what
    # At the edge of the slack nobody is blamed yet.
    assert lower_bound.hard == 0.5
    assert not lower_bound.forbids(0.5 * (1 - SLACK))
    assert gate(lower_bound.time * (1 - SLACK), lower_bound) is None


def test_an_empty_kernels_time_is_a_lower_bound_that_no_time_is_blamed_for():
    line = roof(1e12, 1e12).with_([Ceiling("launch", "time", 1e-6, "measured")])
    lower_bound = lower_bound_time(Work({"fp32": 1.0}, 1e3), line)
    assert (lower_bound.time, lower_bound.bound_by) == (1e-6, "launch")
    assert gate(0.5e-6, lower_bound) is None
    assert lower_bound_time(Work({}, 1e9), line).bound_by == "dram"
