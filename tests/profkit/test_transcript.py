"""What run_code.py prints, read back from terminals, files and comments."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.contests.gpucodeforces.transcript import parse

COMMENT = (Path(__file__).resolve().parents[1] / "data/contest/ci_comment.txt").read_text("utf-8")


def test_the_comment_of_the_contest():
    found = parse(COMMENT)
    assert found.passed is True
    assert (found.reference.seconds, found.candidate.seconds) == (26e-6, 29e-6)
    assert found.candidate.label == "自定义 CUDA ReLU"
    assert found.speedup == 0.88
    assert (round(found.low, 3), round(found.high, 3)) == (0.864, 0.930)
    assert any("cache" in note for note in found.notes)
    json.dumps(found.to_dict(), allow_nan=False)


def test_wrapped_lines_and_colours_do_not_matter():
    text = COMMENT.replace("all archs for visible cards", "all archs\nfor visible\ncards").replace(
        "0.000026 秒", "\n0.000026\n秒"
    )
    text = (
        text.replace("(Speedup): 0.88x", "\n(Speedup): 0.88x").replace("✅", "\x1b[32m✅\x1b[0m").replace("\n", "\r\n")
    )
    assert parse(text).to_dict() | {"notes": 0} == parse(COMMENT).to_dict() | {"notes": 0}


@pytest.mark.parametrize(
    ("text", "passed", "note"),
    [
        ("❌ 精度不一致！\n", False, ""),
        (
            "CUDA 不可用，请确保您有可用的 NVIDIA GPU\nTraceback (most recent call last):\nTypeError: cannot unpack",
            None,
            "no CUDA",
        ),
        ("✅ 精度对齐：x\nCUDA 内核执行时间为0，无法计算加速比。\n", True, "printed as 0"),
        ("", None, ""),
    ],
)
def test_other_endings(text, passed, note):
    found = parse(text)
    assert found.passed is passed
    assert math.isnan(found.speedup)
    assert (not note and not found.notes) or any(note in n for n in found.notes)


def test_the_second_comment_and_the_added_lines():
    found = parse(
        COMMENT + "自定义 CUDA ReLU 吞吐量: 2.315 TFLOP/s\n自定义 CUDA ReLU 内存带宽: 296.042 GB/s\n✅ 测试通过！\n"
    )
    assert (found.throughput, found.bandwidth) == (pytest.approx(2.315e12), pytest.approx(296.042e9))
    assert parse("自定义 CUDA ReLU 吞吐量: 12 B/s").throughput == 12


@given(a=st.floats(1e-6, 10), b=st.floats(1e-6, 10), digits=st.sampled_from([6, 9]))
def test_an_honest_ratio_is_always_allowed(a, b, digits):
    text = f"R 平均执行时间: {a:.{digits}f} 秒\nC 平均执行时间: {b:.{digits}f} 秒\n加速比 (Speedup): {a / b:.2f}x\n"
    found = parse(text)
    assert found.low <= a / b <= found.high * (1 + 1e-12)
