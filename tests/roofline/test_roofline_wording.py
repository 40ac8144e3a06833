"""Numbers and names as people read them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.wording import cut, digits, percent, roof_name, roof_unit, showable, si


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.32e12, "4.32 TB/s"),
        (784e12, "784 TB/s"),
        (1.979e15, "1.98 PB/s"),
        (999.9e9, "1.00 TB/s"),
        (12.34, "12.3 B/s"),
        (0.0, "0 B/s"),
        (math.nan, "? B/s"),
    ],
)
def test_si(value, text):
    assert si(value, "B/s") == text


@given(st.floats(1e-6, 1e22))
def test_si_keeps_three_digits(value):
    number, unit = si(value, "B/s").split(" ")
    scale = {"P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3}.get(unit[0], 1.0)
    assert float(number) * scale == pytest.approx(value, rel=0.0051)


def test_small_numbers_and_fractions():
    assert digits(0.0725) == "0.0725"
    assert digits(9.999) == "10.0"
    assert percent(0.905) == "90 %"
    assert percent(0.0377) == "3.8 %"
    assert percent(1.13) == "113 %"
    assert percent(math.nan) == "?"


def test_roof_names():
    assert roof_name("tensor_bf16") == "BF16 tensor"
    assert roof_name("dram") == "DRAM"
    assert roof_unit("tensor_int8") == "OP/s"


@given(st.text("abz_<>:(){}[],. $\\^…µ中文\n☃", max_size=80), st.integers(8, 40))
def test_a_cut_name_is_short(name, limit):
    assert len(cut(name, limit)) <= limit


def test_unshowable_text_becomes_its_number(monkeypatch):
    monkeypatch.setattr("roofline.wording._cjk_family", lambda: "")
    assert showable("矩阵乘法", "#1") == "#1"
    assert showable("融合softmax", "#2") == "softmax (#2)"
    assert showable("沐曦 softmax 优化") == "softmax"
    assert showable("plain $x_1$ name") == "plain $x_1$ name"
    assert showable("a\nb\tc") == "a b c"


@given(st.text("abz_<>:(){}[],. $\\^…µ中文\n☃", max_size=40))
def test_what_is_showable_stays_so(text):
    once = showable(text, "#1")
    assert showable(once, "#1") == once
