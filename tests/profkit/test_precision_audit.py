"""The precision audit in a run: from recorded kernels to the report and KernelBench's metadata; and on a GPU."""

import shutil
from pathlib import Path

import pytest
import torch
from candidates import task

from profkit.campaign.index import Index
from profkit.contests.kernelbench import pairs
from profkit.contests.sources import pair
from profkit.record.request import Request
from profkit.report.derived import write
from profkit.report.messages import in_chinese, in_each
from profkit.report.page.run import page
from profkit.report.writers.markdown import report
from profkit.study.study import open_study

H200 = Path(__file__).parents[2] / "examples/h200"
FP32 = {"inputs": ["float32"], "weights": [], "outputs": ["float32"]}
TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_kernel__5x_cublas"


CONV = "sm90_xmma_dgrad_implicit_gemm_indexed_{}_f32_nhwckrsc_nhwc_tilesize256x64x32_warpgroupsize1x1x1_g1_strided_execute_kernel__5x_cudnn"


def recorded(tmp_path, sample, *, kernel=None, reference=None, task=FP32):
    """A recorded run without its counters; with `kernel`, the candidate's kernels are called that, with `reference` the
    reference's.
    """
    shutil.copytree(H200 / sample, tmp_path / sample)
    run = open_study(tmp_path / sample)
    (run.path / "ncu.csv").unlink()
    run.manifest.counters.state, run.manifest.counters.why = "off", "not asked for"
    run.manifest.task = task
    if kernel:
        file = run.path / "cupti.csv"
        lines = file.read_text().splitlines()
        keep = []
        for line in lines[1:]:
            name = reference if line.startswith("reference") else kernel
            keep.append(f"{line.split(',')[0]},{name},{','.join(line.rsplit(',', 5)[1:])}" if name else line)
        file.write_text("\n".join([lines[0], *keep]) + "\n")
    run.run.save()
    return open_study(run.path)


def test_a_tf32_kernel_reaches_the_report_and_the_metadata(tmp_path):
    run = recorded(tmp_path, "ICVXKH", kernel=TF32)
    impl = next(one for one in run.manifest.candidates if one.ok)
    caveats = [caveat for caveat in run.analysis.caveats if caveat.what.startswith("precision:")]
    assert [caveat.what for caveat in caveats] == [f"precision: {impl.name} computes in TF32 what the task has in FP32"]
    assert "100% of its kernel time (kernel names)" in caveats[0].how_much
    assert caveats[0].what in report(run)
    own = pairs.own(run, impl)["reduced_precision"]
    assert (own["used"], own["task"], own["evidence"], own["flop_share"]) == (
        "tf32",
        "FP32",
        "kernel names",
        None,
    )


def test_a_precision_that_is_allowed_spoils_no_win(tmp_path):
    run = recorded(tmp_path, "ICVXKH", kernel=TF32)
    name = next(one.name for one in run.manifest.candidates if one.ok)
    assert "reduced" in [one.code for one in run.verdicts[name].conditions]
    assert not run.verdicts[name].wins
    run.manifest.allowed = ["tf32"]
    run.run.save()
    allowed = open_study(run.path).verdicts[name]
    assert "reduced" not in [one.code for one in allowed.conditions]
    assert allowed.wins is (allowed.word == "faster")


@pytest.mark.parametrize(
    ("pipe", "used"), [pytest.param("f16f16_f16f32", "FP16", marks=pytest.mark.slow), ("bf16bf16_bf16f32", "BF16")]
)
def test_half_where_the_reference_takes_tf32_spoils_a_win_and_says_what_the_task_has(tmp_path, pipe, used):
    """As a published candidate for L2/38 of KernelBench did, which was said to be 1.23x as fast and nothing else."""
    kernels = {"kernel": CONV.format(pipe), "reference": CONV.format("f32f32_tf32f32")}
    run = recorded(tmp_path, "ICVXKH", **kernels)
    impl = next(one for one in run.manifest.candidates if one.ok)
    verdict = run.verdicts[impl.name]
    assert (verdict.word, verdict.wins) == ("faster", False)
    said = f"in {used} where the task has FP32 (TF32 in the reference)"
    assert said in verdict.text()
    assert said in report(run)
    assert said in pairs.own(run, impl)["line"]
    chinese = f"以 {used} 计算，而题目为 FP32（参考实现为 TF32）"
    assert chinese in verdict.text("zh", in_chinese)
    write(run)
    assert chinese in next(row.line_zh for row in Index(tmp_path).rows() if row.impl == impl.name)
    assert f"精度：题目为 FP32（参考实现为 TF32），{impl.name} 以 {used} 计算" in in_each(lambda: page(run))[1]
    assert pairs.own(run, impl)["reduced_precision"]["reference"] == "TF32"
    for allowed, wins in (["tf32"], False), (["tf32", used.lower()], True):
        run.manifest.allowed = allowed
        run.run.save()
        assert open_study(run.path).verdicts[impl.name].wins is wins


def test_the_run_as_recorded_is_in_order_and_one_of_before_is_not_judged(tmp_path):
    assert recorded(tmp_path / "a", "ICVXKH").reduced_precision == []
    assert recorded(tmp_path / "b", "ICVXKH", kernel=TF32, task={}).reduced_precision == []
    counted = open_study(H200 / "ICVXKH")
    counted.manifest.task = FP32
    assert counted.reduced_precision == []


PROBLEM = task("a @ b", "torch.rand(2048, 2048), torch.rand(2048, 2048)", given="a, b")
SAME = PROBLEM.split("def get_inputs")[0].replace("class Model(", "class ModelNew(")
CAST = SAME.replace("a @ b", "torch.mm(a.to(LOW), b.to(LOW), out_dtype=torch.float32)")


@pytest.fixture
def gpu():
    """Skips where torch sees no GPU."""
    if not torch.cuda.is_available():
        pytest.skip("no GPU")


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("counters", ["off", "auto"])
def test_a_half_precision_product_is_named_on_a_gpu(tmp_path, counters):
    wanted = Request(device="cuda", trials=2, budget=0.5, counters=counters, precision="fp32", runs=tmp_path)
    run = pair("half", PROBLEM, CAST.replace("LOW", "torch.float16")).measure(wanted)
    assert run.manifest.task == FP32
    assert run.manifest.candidates[0].ok, run.manifest.candidates[0].reason
    assert [one.used for one in run.reduced_precision] == ["fp16"]
    same = pair("same", PROBLEM, SAME).measure(wanted)
    assert same.reduced_precision == []


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu")
def test_bf16_for_both_sides_is_in_order_on_a_gpu(tmp_path):
    wanted = Request(device="cuda", trials=2, budget=0.5, counters="off", precision="bf16", runs=tmp_path)
    run = pair("same", PROBLEM, SAME).measure(wanted)
    assert run.manifest.task == {"inputs": ["bfloat16"], "weights": [], "outputs": ["bfloat16"]}
    assert run.manifest.candidates[0].ok, run.manifest.candidates[0].reason
    assert run.reduced_precision == []
