"""What a roofline says in Chinese: every sentence has it, and it is wrapped as Chinese is."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.report.messages import catalogue
from roofline import wording
from roofline.figure.sheet import measure, wrap
from roofline.wording import cut, roof_name, roof_unit, showable, told

HOUSE = Path(wording.__file__).parent
CHINESE = catalogue().figures
CHARACTER = re.compile("[一-鿿]")


def said():
    """Every text that told() is given in the source, as it stands there."""
    for file in HOUSE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "told":
                yield from (one.value for one in ast.walk(node.args[1]) if isinstance(one, ast.Constant))


def test_every_sentence_has_its_chinese_with_the_same_places():
    texts = [text for text in said() if isinstance(text, str) and len(text) > 8]
    assert len(texts) > 20
    for text in texts:
        assert any(text in english for english in CHINESE), text
    for english, chinese in CHINESE.items():
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", chinese))
        assert english == "kernel" or CHARACTER.search(chinese) or not re.search("[a-z]{2}", english), english


def test_the_words_given_are_said():
    assert told(CHINESE, "ridge {intensity}", intensity="14.2") == "拐点 14.2"
    assert told({}, "ridge {intensity}", intensity="14.2") == "ridge 14.2"


def test_a_font_that_matplotlib_has_not_noticed_is_found(monkeypatch):
    from matplotlib import font_manager

    file = next((one for one in font_manager.findSystemFonts() if "sanscjk" in Path(one).name.lower()), None)
    if file is None:
        pytest.skip("no such font here")
    known = [one for one in font_manager.fontManager.ttflist if "CJK" not in one.name]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", known)
    wording._cjk_family.cache_clear()
    assert wording.has_chinese()
    wording._cjk_family.cache_clear()


def test_chinese_is_wrapped_between_characters_and_no_line_begins_with_a_stop():
    text = "上限：FP32、BF16 tensor 为实测。时间：至少 48 次测量的中位数，冷缓存。" * 3
    lines = wrap(text, 8.0, 2.0)
    assert len(lines) > 3
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(measure(line, 8.0)[0] <= 2.0 for line in lines)
    assert not [line for line in lines if line[0] in "，。；：、）"]
    assert wrap("one two  three", 8.0, 9.0) == ["one two three"]


@pytest.mark.skipif(not wording.has_chinese(), reason="no Chinese font here")
def test_the_words_of_a_chinese_figure_are_chinese():
    from roofline.ceilings import Ceiling, Roofline
    from roofline.figure.plot import draw
    from roofline.figure.scene import Point, Scene

    roof = Roofline("a device").with_(
        [Ceiling("dram", "bandwidth", 4e12, "measured"), Ceiling("fp32", "compute", 6e13, "measured")]
    )
    points = (Point("a", 3.0, 9e12, 3e12, impl="one", share=0.7), Point("b", 0.0, 0.0, 2e12, impl="one"))
    figure = draw(Scene(roof, points, words=CHINESE, title="x"))
    words = [text.get_text() for text in figure.findobj() if hasattr(text, "get_text")]
    assert [one for one in words if re.search("[a-z]{4,} [a-z]{2,}", one)] == []
    assert "算术强度 [FLOP/byte]" in words


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
