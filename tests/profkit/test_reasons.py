"""What is found against a candidate, in both languages: every sentence that the runner can write is known."""

import re
from pathlib import Path

import pytest

from analyzers.verdicts.verdict import Evidence, decide
from profkit.report.messages import in_chinese

SKIPPED = "not run: a {} candidate does not run on this device, or was not asked for"
PROFKIT = Path(__file__).parents[2] / "profkit"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "ignores weight, bias of LayerNorm (norm): right only for the initial values",
            "忽略了 weight, bias of LayerNorm (norm)：只对构造时的取值正确",
        ),
        (
            "inputs times 1e3: output: 9 of 12 elements are NaN where the reference is not",
            "放大到 1e3 倍的输入：output：12 个元素中有 9 个为 NaN，而参考实现不是",
        ),
        (
            "output: 2 of 4 elements are not NaN where the reference is",
            "output：4 个元素中有 2 个不是 NaN，而参考实现是",
        ),
        (
            "output: 2 of 4 elements are finite where the reference is infinite",
            "output：4 个元素中有 2 个是有限数，而参考实现为无穷大",
        ),
        ("a timed call left no answer", "计时的调用没有留下结果"),
        ("output: 2 of 4 elements are infinite with the other sign", "output：4 个元素中有 2 个无穷大的符号相反"),
        (
            "in a timed call: output[0]: 3 of 4 elements differ, the worst by 0.5 (rms 1)",
            "在计时的调用中：output[0]：4 个元素中有 3 个不符，最大相差 0.5（均方根 1）",
        ),
        (
            "gives an input as it came, which is right only for the drawn inputs; wrong for inputs times 10",
            "给出原样返回的输入，只对抽取的输入碰巧正确；对放大到 10 倍的输入不正确",
        ),
        ("rows in order of size: zeros; inputs times 10: ones", "各行按大小排序的输入：全零；放大到 10 倍的输入：全一"),
        ("zeros, the mean would pass", "全零、平均值也会被判为正确"),
        ("changes its inputs: 3 of 4 elements of input[0]", "改动了输入：input[0] 的 4 个元素中的 3 个"),
        (
            "output[0]: right to 3.1 bits where fp32 has 13.0: 2 of 4 elements differ, the worst by 0.5 (rms 1)",
            "output[0]：正确到 3.1 位，而 fp32 应有 13.0 位：4 个元素中有 2 个不符，最大相差 0.5（均方根 1）",
        ),
        (
            "leaves other values in its inputs than the reference does: input[0]: right to 0.0 bits where fp32 has 13.0: 4 of 4 elements differ, the worst by 1 (rms 1)",
            "在输入里留下的值与参考实现不同：input[0]：正确到 0.0 位，而 fp32 应有 13.0 位：4 个元素中有 4 个不符，最大相差 1（均方根 1）",
        ),
        (
            "right for weights as they are constructed, wrong where they have other signs and sizes (a of Model): output: 2 of 4 elements differ",
            "只对构造时的权重正确，权重（a of Model）换了符号和大小则错误：output：4 个元素中有 2 个不符",
        ),
        (
            "inputs times 10, one-dimensional ones too: output: 2 of 4 elements differ",
            "放大到 10 倍的输入（含一维输入）：output：4 个元素中有 2 个不符",
        ),
        ("wrong for 2 unusual inputs, wrong for 1 unusual weight", "答错 2 种特殊输入、答错 1 种特殊权重"),
        ("crashes on 1 unusual weight, refuses 1 unusual input", "崩溃于 1 种特殊权重、拒绝 1 种特殊输入"),
        ("not run: a cuda candidate does not run on this device", "cuda 候选实现不能在此设备上运行"),
        ("not asked for", "没有要求运行"),
        ("killed by SIGSEGV during its first call", "首次调用时被 SIGSEGV 终止"),
        ("RuntimeError: an exception's own words", "RuntimeError: an exception's own words"),
    ],
)
def test_a_sentence_in_chinese(said, expected):
    assert in_chinese(said) == expected


def test_a_verdict_says_why_in_the_language_asked_for():
    ignored = "ignores bias of LayerNorm (norm): right only for the initial values"
    wrong = decide(Evidence(impl="x", status="mismatch", reason=ignored))
    assert ignored in wrong.text("en")
    assert "忽略了 bias of LayerNorm (norm)" in wrong.text("zh", in_chinese)
    void = decide(Evidence(impl="x", passing=("zeros",)))
    assert "zeros would pass" in void.text("en")
    assert "全零也会被判为正确" in void.text("zh", in_chinese)
    fragile = decide(Evidence(impl="x", fragile=["every other row zero: output: 3 of 4 elements differ"]))
    assert "不稳健：答错 1 种特殊输入" in fragile.text("zh", in_chinese)
    skipped = decide(Evidence(impl="own", status="skipped", reason=SKIPPED.format("cpp")))
    assert skipped.text("zh", in_chinese) == "未运行：cpp 候选实现不能在此设备上运行，或没有要求运行"


def test_every_sentence_of_the_judge_is_known():
    """Those that stand in the runner's files as they are said, without values in them."""
    said = []
    for file in ("judge/timing/claims.py", "guest/subject.py", "judge/session.py"):
        text = (PROFKIT / file).read_text("utf-8")
        said += re.findall(r'(?:ChangedResultError|Verdict)\(\s*(?:"[\w-]+", )?\s*"([a-z][^"{]{20,})"', text)
        said += re.findall(r'what = "([^"{]+)"', text)
    assert len(said) >= 2
    assert [one for one in said if in_chinese(one) == one] == []
