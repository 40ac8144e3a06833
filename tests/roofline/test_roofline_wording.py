"""Names as people read them."""

from hypothesis import given
from hypothesis import strategies as st

from roofline.wording import cut, roof_name, roof_unit, showable


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
