"""Laws of the roofline, the order of trust, and its way through JSON."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ceilings import (
    BANDWIDTH,
    COMPUTE,
    TRUST,
    Ceiling,
    Roofline,
    datasheet_ceilings,
    ncu_ceilings,
)
from roofline.device import find_spec
from roofline.errors import RooflineError

H200 = find_spec("NVIDIA H200")
peaks = st.floats(1e6, 1e18)
intensities = st.floats(1e-9, 1e9)


@st.composite
def ceilings(draw):
    kind = draw(st.sampled_from(["compute", "bandwidth"]))
    return Ceiling(
        draw(st.sampled_from(COMPUTE if kind == "compute" else BANDWIDTH)),
        kind,
        draw(peaks),
        draw(st.sampled_from(TRUST)),
        note=draw(st.text('abc "µ中', max_size=20)),
        clock=draw(st.just(math.nan) | st.floats(1e8, 3e9)),
        power=draw(st.just(math.nan) | st.floats(1, 1e3)),
        variant=draw(st.text('abc "µ中', max_size=20)),
        spread=draw(st.just(math.nan) | st.floats(0, 1)),
        measured_at=draw(st.sampled_from(["", "2026-11-20T21:00:00+00:00"])),
    )


rooflines = st.lists(ceilings(), max_size=12).map(lambda found: Roofline("x").with_(found))


def simple(peak, bandwidth):
    return Roofline(
        "x", (Ceiling("fp32", "compute", peak, "measured"), Ceiling("dram", "bandwidth", bandwidth, "measured"))
    )


@given(peaks, peaks, intensities)
def test_attainable_is_under_every_roof(peak, bandwidth, intensity):
    reached = simple(peak, bandwidth).attainable(intensity)
    assert reached <= peak
    assert reached <= intensity * bandwidth
    assert reached in (peak, intensity * bandwidth)


@given(peaks, peaks)
def test_both_roofs_meet_at_the_ridge(peak, bandwidth):
    roofline = simple(peak, bandwidth)
    assert roofline.attainable(roofline.ridge()) == pytest.approx(peak)
    assert roofline.attainable(roofline.ridge() / 2) == pytest.approx(peak / 2)
    assert roofline.attainable(roofline.ridge() * 2) == peak


@given(rooflines)
def test_json_and_back(roofline):
    text = json.dumps(msgspec.to_builtins(roofline), allow_nan=False)
    back = Roofline.from_dict(json.loads(text))
    assert msgspec.to_builtins(back) == msgspec.to_builtins(roofline)
    assert [c.peak for c in back.ceilings] == [c.peak for c in roofline.ceilings]


@given(rooflines, st.sampled_from((*COMPUTE, *BANDWIDTH)))
def test_the_most_trusted_source_wins(roofline, name):
    found = roofline.get(name)
    sources = [c.source for c in roofline.ceilings if c.name == name]
    assert (found.source if found else None) == min(sources, key=TRUST.index, default=None)
    assert math.isnan(roofline.peak(name)) == (found is None)


def test_a_source_can_be_asked_for():
    roofline = Roofline("x", datasheet_ceilings(H200)).with_([Ceiling("dram", "bandwidth", 4.4e12, "measured")])
    assert roofline.peak("dram") == 4.4e12
    assert roofline.get("dram", "datasheet").peak == 4.8e12
    assert roofline.get("dram", "ncu") is None
    again = simple(1e12, 1e12).with_([Ceiling("fp32", "compute", 2e12, "measured")])
    assert (again.peak("fp32"), len(again.ceilings)) == (2e12, 2), "the same name and source is replaced"


def test_odd_intensities():
    roofline = simple(1e12, 1e12)
    assert roofline.attainable(math.inf) == 1e12
    assert roofline.attainable(0.0) == 0.0
    assert math.isnan(roofline.attainable(math.nan))
    assert math.isnan(roofline.attainable(-1.0))
    blind = Roofline("NVIDIA X1", (Ceiling("fp32", "compute", 1e12, "measured", note="FMA"),))
    unknown = (blind.attainable(1.0), blind.attainable(1.0, "tensor_bf16"), blind.ridge())
    assert all(map(math.isnan, unknown))


@pytest.mark.parametrize("peak", [0.0, -1.0, math.nan, math.inf])
def test_a_roof_is_a_number_above_zero(peak):
    with pytest.raises(RooflineError) as error:
        Ceiling("fp32", "compute", peak, "measured")
    assert "fp32" in str(error.value)
    assert error.value.fix


def test_wrong_words_are_refused():
    row = {"name": "a", "kind": "compute", "peak": 1.0, "source": "ncu"}
    for field, value in (("kind", "speed"), ("source", "hearsay"), ("peak", "high")):
        with pytest.raises(RooflineError, match=field):
            Roofline.from_dict({"device": "x", "ceilings": [{**row, field: value}]})
    with pytest.raises(RooflineError, match="ceilings"):
        Roofline.from_dict({"device": "x"})
    # Fields of a later version are ignored.
    later = {"device": "x", "ceilings": [{**row, "kind": "compute", "colour": "blue", "clock": None}]}
    assert Roofline.from_dict(later).peak("a") == 1.0


def test_datasheet_ceilings_carry_source_and_caveat():
    found = {c.name: c for c in datasheet_ceilings(H200)}
    assert found["dram"].peak == 4.8e12
    assert found["tensor_bf16"].clock == 1.83e9
    assert "H200 datasheet" in found["fp32"].note
    assert {c.source for c in found.values()} == {"datasheet"}


def test_ncu_ceilings_take_what_is_known():
    given_ = {"peak_fp32": 66e12, "peak_dram_bw": 4.8e12, "peak_l2_bw": math.nan, "peak_tensor_bf16": 0.0}
    given_ |= {"peak_moon": 1.0, "time": 1e-3}
    found = ncu_ceilings(given_, clock=1.755e9)
    assert [(c.name, c.kind, c.source) for c in found] == [("fp32", "compute", "ncu"), ("dram", "bandwidth", "ncu")]
    assert found[0].clock == 1.755e9
