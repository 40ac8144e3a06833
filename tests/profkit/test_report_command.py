"""profkit report: which form is written where, what is refused, and the write-ups for PR, Paddle and TensorRT."""

import re
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from synthetic_runs import kernel, make_run

from analyzers.verdicts.shapes import Shape
from collectors.caveat import Caveat
from profkit.cli.reading import report_ as command
from profkit.errors import ProfkitError
from profkit.record.importing import import_files
from profkit.report.compare import Chosen, ladder_of
from profkit.report.dialects import DIALECTS, paddle, pr, tensorrt
from profkit.report.messages import in_each, speaking
from profkit.report.writers import terminal
from profkit.rundir.manifest import Check
from profkit.study.study import open_study

RECORDED = Path(__file__).parents[2] / "examples/h200/ICJTRP"


@pytest.fixture
def folder(tmp_path):
    make_run(tmp_path / "r", {"reference": 3e-4, "cuda": 2e-4})
    return tmp_path


def report(*arguments):
    return CliRunner().invoke(command, [str(a) for a in arguments], standalone_mode=False)


def test_the_page_by_extension_and_no_overwriting(folder):
    page = folder / "report.html"
    assert report(folder / "r", "-o", page).return_value == 0
    assert page.read_text("utf-8").startswith("<!doctype html>")
    refused = report(folder / "r", "-o", page)
    assert isinstance(refused.exception, click.UsageError)
    assert "--force" in str(refused.exception)
    assert report(folder / "r", "-o", page, "--force").return_value == 0


@pytest.mark.parametrize("name", ["timings.csv", pytest.param("ncu.csv", marks=pytest.mark.slow)])
def test_a_run_that_lost_its_files_keeps_what_its_metrics_say(tmp_path, name):
    run = tmp_path / "run"
    shutil.copytree(RECORDED, run)
    before = (run / "metrics.json").read_bytes()
    (run / name).unlink()
    refused = report(run)
    assert isinstance(refused.exception, ProfkitError)
    assert str(run / name) in str(refused.exception)
    assert "restore the file" in refused.exception.fix
    assert (run / "metrics.json").read_bytes() == before
    told = [caveat for caveat in open_study(run).analysis.caveats if "are gone" in caveat.what]
    assert [caveat.what for caveat in told] == [f"files of this run are gone: {name}"]
    shutil.copy(RECORDED / name, run)
    assert report(run).return_value == 0


def test_pr_is_written_into_the_run(folder):
    done = report(folder / "r", "--for", "pr")
    assert done.exception is None
    assert "## T1: measured on" in done.output
    for name in ("pr.md", "roofline-light.png", "roofline-dark.png"):
        assert (folder / "r" / name).stat().st_size > 500


def test_a_picture_is_not_overwritten(folder):
    (folder / "roofline-dark.png").write_bytes(b"mine")
    done = report(folder / "r", "--for", "pr", "-o", folder / "readme.md")
    assert isinstance(done.exception, click.UsageError)
    assert (folder / "roofline-dark.png").read_bytes() == b"mine"
    assert not (folder / "readme.md").exists()


def test_tensorrt_without_any_input_is_a_frame_of_gaps():
    done = report("--for", "tensorrt", "--lang", "zh")
    assert done.exception is None
    assert done.output.count("【待作者补充") >= 8
    assert not re.search(r"\d+(\.\d+)? ?(ms|us|x)\b", done.output)


@pytest.mark.parametrize("arguments", [[], ["--for", "pr"], ["a", "b"], ["a", "--for", "pr", "--json"]])
def test_usage(arguments):
    assert isinstance(report(*arguments).exception, click.UsageError)


@pytest.mark.parametrize("dialect", [["--for", "pr"], [], ["--for", "html"]])
def test_an_option_of_another_dialect_is_refused_by_name(folder, dialect):
    refused = report(folder / "r", *dialect, "--notes", "x.toml")
    assert isinstance(refused.exception, click.UsageError)
    assert "--notes goes with --for tensorrt" in str(refused.exception)


def test_the_command_line_is_built_from_the_dialects():
    choices = next(option for option in command.params if "--for" in option.opts).type.choices
    assert list(choices) == list(DIALECTS)
    for dialect in DIALECTS.values():
        assert all(option in command.params for option in dialect.options)
    assert isinstance(report("r", "--for", "nobody").exception, click.BadParameter)


def test_an_import_fills_its_places_for_tensorrt(tmp_path):
    import_files([RECORDED / "ncu.csv"], tmp_path / "run")
    shown = report(tmp_path / "run", "--for", "tensorrt", "-o", "-").stdout
    assert "launches of" in shown
    assert "| `transpose_kernel` |" in shown
    assert "evidence: " in shown


def test_the_terminal_speaks_the_language_that_was_asked_for(tmp_path):
    shutil.copytree(RECORDED, tmp_path / "run")
    shown = report(tmp_path / "run", "--lang", "zh")
    assert "cuda：正确，更快：2.86x" in shown.stdout
    assert "冷缓存" in shown.stdout
    assert "下一步：profkit explain" in shown.stderr


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
    caveats = (Caveat("noise", "1 %"), Caveat("halves are not counted", "3e+08", code="fp16-vectors"))
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
    assert "minor, without effect on the result: halves are not counted" in text
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
