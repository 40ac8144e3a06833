"""Write-ups: PR, Paddle, TensorRT in both languages."""

import re
from pathlib import Path

import pytest
from synthetic_runs import kernel, make_run

from analyzers.verdicts.shapes import Shape
from collectors.caveat import Caveat
from profkit.errors import ProfkitError
from profkit.report.compare import Chosen, ladder_of
from profkit.report.dialects import DIALECTS, paddle, pr, tensorrt
from profkit.report.messages import catalogue, in_each, speaking
from profkit.report.writers import terminal
from profkit.rundir.manifest import Check

CONTEST = Path(__file__).parents[1] / "data/contest"


@pytest.fixture
def run(tmp_path):
    rows = [
        kernel("reference", "r(int)", 3e-4, dram_bytes=6e8, flop_fp32=1e9),
        kernel("cuda", "k(int)", 2e-4, dram_bytes=4e8, flop_fp32=1e9),
    ]
    return make_run(tmp_path / "r", {"reference": 3e-4, "cuda": 2e-4}, rows)


def test_pr_has_both_pictures_and_the_convention(run):
    text = pr.snippet(run)
    assert re.search(r'<source media="\(prefers-color-scheme: dark\)" srcset="roofline-dark.png">', text)
    assert "time of the reference / time of the candidate" in text
    assert "profkit profile S1/T1" in text
    assert "95 % interval" in text
    written = DIALECTS["pr"].document([str(run.path)], "en")
    assert '<img alt="Roofline of T1: cuda: correct, ' in written.text
    assert list(written.pictures) == ["roofline-light.png", "roofline-dark.png"]


def test_a_pr_holds_the_findings_of_the_best_alone_and_caveats_that_matter(run):
    caveats = (Caveat("noise", "1 %"), Caveat("declared and counted differ", "3e+08", code="work-differs"))
    caveats += tuple(
        Caveat(f"{one}: not right", "inputs times 1e3: NaN", code="fragile", about=one) for one in ("slow", "slower")
    )
    object.__setattr__(run.analysis, "caveats", caveats)
    text = pr.snippet(run)
    assert "- caveat: noise: 1 %" in text
    for one in ("slow", "slower"):  # Another than the best is wrong all the same.
        assert f"- caveat: {one}: not right: inputs times 1e3: NaN" in text
        assert f"{one}: not right: inputs times 1e3: NaN" in terminal.summary(run)
    assert "3e+08" not in text
    assert "minor, without effect on the result: declared and counted differ" in text
    assert not re.search(r"^- reference: ", text, re.M)


def test_paddle_57835_is_made_from_its_inputs():
    cases = [
        paddle.Case("Tesla V100", "float32", "[1000000,10,10,10]", 28.013e-3, 10.893e-3),
        paddle.Case("Tesla V100", "float32", "[1000,1000,10,10,10]", 32.270e-3, 11.645e-3),
    ]
    made = [line for line in paddle.report(cases).splitlines() if line.startswith("| ") and "V100" in line]
    wanted = [line for line in (CONTEST / "paddle_57835.md").read_text().splitlines() if "V100" in line]
    assert made == wanted
    assert "old / new - 1" in paddle.report(cases)


def test_paddle_from_runs_leaves_gaps(run):
    chosen = [Chosen(run, "reference"), Chosen(run, "cuda")]
    text = paddle.report(paddle.cases_of(chosen))
    assert text.count("[fill in]") == 2
    run.manifest.inputs = ["float32 [16, 1024]", "float32 [1024, 2048] strides [1, 1024]"]
    recorded = in_each(lambda: paddle.report(paddle.cases_of(chosen)))[1]
    assert "| float32 | [16,1024], [1024,2048] strides [1,1024] |" in recorded
    assert "【待填】" not in recorded
    with pytest.raises(ProfkitError, match="takes pairs"):
        paddle.cases_of(chosen[:1])


def test_paddle_has_a_case_a_shape(run, monkeypatch):
    run.manifest.inputs = ["float16 [64, 32]"]
    shapes = [
        Shape(("float16 [64, 32]",), {"reference": 3e-4, "cuda": 2e-4}),
        Shape(("float16 [64, 32] strides [1, 64]",), {"reference": 9e-4, "cuda": 3e-4}),
        Shape(("float16 [128, 32]",), {"reference": 5e-4}),
    ]
    monkeypatch.setattr(type(run), "shapes", shapes)
    cases = paddle.cases_of([Chosen(run, "reference"), Chosen(run, "cuda")])
    assert [case.input_shape for case in cases] == ["[64,32]", "[64,32] strides [1,64]"]
    assert (cases[1].before, cases[1].after) == (9e-4, 3e-4)
    text = in_each(lambda: paddle.report(cases))[1]
    assert "| float16 | [64,32] strides [1,64] | 0.9000 | 0.3000 | 200.0% |" in text
    assert "旧 / 新 - 1" in text


@pytest.mark.parametrize(
    ("lang", "heads"),
    [
        ("zh", ["测试环境", "基线性能", "热点分析", "逐步优化", "精度", "性能", "结论与未来工作", "复现命令"]),
        ("en", ["Test environment", "Hot spots", "Step by step", "Accuracy", "Performance", "Commands to reproduce"]),
    ],
)
def test_tensorrt_has_its_sections(run, lang, heads):
    with speaking(lang):
        text = inputs_of(run).text()
    places = [re.search(rf"^## \d+ {head}$", text, re.M).start() for head in heads]
    assert places == sorted(places)
    assert "1.50x" in text
    if lang == "en":
        assert not re.search(r"[一-鿿]", text)


def test_tensorrt_says_once_what_can_be_done_about_several_kernels(tmp_path):
    first = "void at::native::vectorized_elementwise_kernel<4, at::native::direct_copy_kernel_cuda(int)>(int)"
    second = "void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda(int)>(int)"
    rows = [
        kernel("reference", first, 2e-4, dram_bytes=6e8),
        kernel("reference", second, 1e-4, dram_bytes=3e8),
        kernel("cuda", "k(int)", 2e-4, dram_bytes=4e8),
    ]
    study = make_run(tmp_path / "r", {"reference": 3e-4, "cuda": 2e-4}, rows)
    chosen = [Chosen(study, "reference"), Chosen(study, "cuda")]
    text = in_each(lambda: tensorrt.WriteUp(chosen, ladder_of(chosen)).text())[1]
    assert "| `copy (ATen) #2` | reference |" in text
    assert text.count("这是 PyTorch 自带的 kernel") == 1
    # Another main kernel: what was counted inside it is not compared.
    assert "最耗时的 kernel 由 `copy (ATen)` 变为 `k`" in text


def test_tensorrt_orders_runs_by_the_size_of_their_inputs(tmp_path):
    studies = []
    for batch in (8, 1, 32):
        studies.append(make_run(tmp_path / str(batch), {"reference": batch * 1e-4, "cuda": batch * 5e-5}))
        studies[-1].manifest.inputs = [f"bfloat16 [{batch}, 1024]", "float32 [16]"]
    chosen = [Chosen(studies[0], "reference"), Chosen(studies[0], "cuda")]
    text = tensorrt.WriteUp(chosen, ladder_of(chosen), others=studies[1:]).text()
    rows = [line for line in text.splitlines() if line.startswith("| bfloat16")]
    assert [row.partition("[")[2].partition(",")[0] for row in rows] == ["1", "8", "32"]


def test_tensorrt_tells_every_error_that_the_template_asks_for(run):
    impl = run.manifest.candidates[0]
    impl.checks = [Check(1, True, "", 4e-3, 3e-4, "fp32", 20.0, 2e-3, 1e-3, 1.5e-4, 1.25e-4)]
    text = in_each(lambda: inputs_of(run).text())[1]
    assert "| cuda | 1 | 0.004 | 0.002 | 0.001 | 0.0003 | 0.00015 | 0.000125 | 是（1/1） |" in text
    assert "平均相对误差" in text
    assert "没有记录的误差" not in text


def inputs_of(run):
    chosen = [Chosen(run, "reference"), Chosen(run, "cuda")]
    return tensorrt.WriteUp(chosen, ladder_of(chosen))


def test_a_missing_input_is_a_gap_never_a_sentence():
    text = in_each(lambda: tensorrt.WriteUp().text())[1]
    assert text.count("【待作者补充") >= 8
    assert not re.search(r"\d+(\.\d+)? ?(ms|us|x)\b", text)


def test_languages_are_whole():
    for key, texts in catalogue().say.items():
        assert len(texts) == 2, key
        assert all(texts), key
        places = [sorted(re.findall(r"\{\w+\}", text)) for text in texts]
        assert places[0] == places[1], key
