"""The precision audit on recorded launches of an H200, on names alone, and where it has to be silent."""

from pathlib import Path

import pandas as pd
import pytest
from synthetic import launches

from analyzers.kernels.names import UNKNOWN, stored_type, tensor_type
from analyzers.kernels.precision import audit, task_type
from analyzers.pipes import keeps
from collectors import read

H200 = Path(__file__).parents[2] / "examples/h200"
FP32 = {"inputs": ["float32"], "weights": ["float32", "int64"], "outputs": ["float32"]}
BF16 = {"inputs": ["bfloat16"], "weights": [], "outputs": ["bfloat16"]}


def together(*parts: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True)


def one(frame, task=FP32):
    found = audit(frame, task, "reference", ["fast"])
    return found[0] if found else None


@pytest.mark.parametrize("sample", sorted(p.name for p in H200.iterdir() if (p / "ncu.csv").exists()))
def test_no_recorded_candidate_is_accused(sample):
    frame = read(H200 / sample / "ncu.csv")
    names = {str(name): () for name in frame["impl"].unique() if name != "reference"}
    task = BF16 if sample in ("ICHTCM", "ICGRMS") else FP32
    assert audit(frame, task, "reference", names) == []


GEMM = 2.0 * 512**3


def row(impl, pipe, flop, time=1e-4, kernel="k(float*)"):
    return {"impl": impl, "kernel": kernel, pipe: flop, "time": time}


def test_tf32_by_counters_and_its_shares():
    frame = launches(
        row("reference", "flop_fp32", GEMM, 1e-3),
        row("fast", "op_tensor_tf32", GEMM, 2e-4, "mm"),
        row("fast", "flop_fp32", GEMM / 4, 6e-4, "epilogue"),
    )
    found = one(frame)
    assert (found.used, found.kernels) == ("tf32", ("mm",))
    assert found.time_share == pytest.approx(0.25)
    assert found.flop_share == pytest.approx(0.8)


def test_silent_where_the_reference_does_the_same_or_the_product_is_put_together():
    same = launches(row("reference", "op_tensor_tf32", GEMM), row("fast", "op_tensor_tf32", GEMM))
    assert one(same) is None
    three = launches(row("reference", "flop_fp32", GEMM), row("fast", "op_tensor_tf32", 3 * GEMM))
    assert one(three) is None
    trace = launches(
        row("reference", "flop_fp32", GEMM), {**row("fast", "flop_fp32", GEMM), "op_tensor_tf32": 1e-4 * GEMM}
    )
    assert one(trace) is None
    lower = launches(row("reference", "op_tensor_tf32", GEMM), row("fast", "op_tensor_bf16", GEMM))
    assert one(lower).used == "bf16"
    half = launches(row("reference", "op_tensor_tf32", GEMM), row("fast", "op_tensor_fp16", GEMM))
    assert (one(half).used, one(half).reference, one(half).evidence) == ("fp16", "TF32", "counters")
    assert one(half.assign(impl=["fast", "reference"])) is None


def named(**kernels):
    """A frame of kernels and times alone, as CUPTI gives it."""
    frame = pd.DataFrame([{"impl": impl, "kernel": kernel, "time": 1e-4} for impl, kernel in kernels.items()])
    return frame.assign(kind="kernel", cc="9.0")


SIMT = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm::Params)"
TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_kernel__5x_cublas"


def test_by_name_where_nothing_was_counted():
    found = one(named(reference=SIMT, fast=TF32))
    assert (found.used, found.evidence, found.time_share) == ("tf32", "kernel names", 1.0)
    assert found.to_dict()["flop_share"] is None
    assert one(named(reference=TF32, fast=TF32)) is None
    assert one(named(reference=SIMT, fast=SIMT)) is None
    assert one(named(reference="nvjet_sm90_sss_64x64_NNT", fast=TF32)) is None
    assert one(named(fast=TF32)) is None
    assert one(named(reference=SIMT, fast=TF32), {"inputs": ["int64"]}) is None


def test_type_of_a_task():
    nothing = {"inputs": ["int32"], "outputs": ["bool"]}
    assert [task_type(t) for t in (FP32, BF16, nothing, {})] == ["fp32", "bf16", "", ""]
    assert task_type({"inputs": ["float32"], "outputs": ["float64"]}) == "fp32"
    assert task_type({"inputs": ["float8_e4m3fn"], "outputs": ["float16"]}) == "fp8"
    assert task_type({"inputs": ["float4_e2m1fn_x2", "float8_e4m3fn"]}) == "fp4"


def test_order_of_precisions():
    order = ["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4", "int8"]
    kept = [keeps(one) for one in order]
    assert kept == sorted(set(kept), reverse=True)
    assert keeps("tensor_tf32") == keeps("tf32")


CONV = "sm90_xmma_dgrad_implicit_gemm_indexed_{}_f32_nhwckrsc_nhwc_tilesize256x64x32_warpgroupsize1x1x1_g1_strided_execute_kernel__5x_cudnn"
CONV_TF32, CONV_FP16, CONV_BF16 = (CONV.format(one) for one in ("f32f32_tf32f32", "f16f16_f16f32", "bf16bf16_bf16f32"))
ADD = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<{0}> >"
    "(at::TensorIteratorBase&, at::native::CUDAFunctor_add<{0}> const&)::{{lambda(int)#1}}>(int)"
)
"""As CUPTI recorded them on an H200: L2/38 and L2/49 of KernelBench, a transposed convolution and what follows."""


def test_a_task_in_half_has_half():
    half = {"inputs": ["float16"], "outputs": ["float16"]}
    assert one(named(reference=CONV_FP16, fast=CONV_FP16), half) is None
    assert one(named(reference=CONV_FP16, fast=CONV_TF32), half) is None
    found = one(named(reference=CONV_FP16, fast=CONV_BF16), half)
    assert (found.task, found.reference, found.asked) == ("FP16", "", "FP16")


def test_what_is_read_and_written_in_half_is_less_though_no_tensor_pipe_is_used():
    full, half = ADD.format("float"), ADD.format("c10::Half")
    found = one(named(reference=full, fast=half))
    assert (found.used, found.asked, found.evidence, found.time_share) == ("fp16", "FP32", "kernel names", 1.0)
    assert one(named(reference=half, fast=half)) is None
    counted = launches(
        row("reference", "flop_fp32", GEMM, 1e-3, full),
        row("fast", "flop_fp32", GEMM, 9e-4, full),
        row("fast", "flop_fp16", GEMM, 1e-4, half),
    )
    found = one(counted)
    assert (found.used, found.evidence, found.kernels) == ("fp16", "kernel names", (half,))
    assert found.time_share == pytest.approx(0.1)
    assert found.to_dict()["flop_share"] is None


def test_the_least_that_is_not_allowed_is_said():
    frame = together(named(reference=SIMT, fast=CONV_FP16), named(fast=CONV_BF16))
    found = one(frame)
    assert found.kinds == ("bf16", "fp16")
    allowed = ((), ("bf16",), ("tf32", "bf16"), ("bf16", "fp16"))
    assert [found.beyond(one) for one in allowed] == ["bf16", "fp16", "fp16", ""]


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (ADD.format("c10::Half"), "fp16"),
        (ADD.format("float"), ""),
        (ADD.format("c10::BFloat16"), "bf16"),
        ("void at::native::vectorized_elementwise_kernel<8, at::native::float16_copy_kernel_cuda(float)>", "fp16"),
        ("void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(float)>", "bf16"),
        ("scale(__half const*, float*)", "fp16"),
        ("scale(__half2 const*, __nv_bfloat16*)", "bf16"),
        ("halves(float const*, float*)", ""),
        (CONV_FP16, ""),
        ("void cutlass::Kernel<Gemm<float, cutlass::bfloat16_t, OpMultiplyAddFastF32> >", ""),
    ],
)
def test_types_that_are_stored(kernel, kind):
    assert stored_type(kernel) == kind


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (TF32, "tf32"),
        (SIMT, ""),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4", "tf32"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_stage3_warpsize4x2x1_ffma_aligna4", ""),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "bf16"),
        ("sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x16_stage3_warpsize2x2x1", ""),
        ("cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4", "tf32"),
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x3_nn_align8", "bf16"),
        ("cutlass_80_tensorop_d884gemm_64x32_16x4_nn_align1", ""),
        ("cutlass_tensorop_s1688f32gemm_128x128", ""),
        ("ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn", "fp16"),
        ("ampere_sgemm_128x64_nn", ""),
        ("volta_h884gemm_64x64_ldg8_nn", "fp16"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "bf16"),
        ("nvjet_hsh_128x128_64x6", "fp16"),
        ("nvjet_sm90_sss_64x64", UNKNOWN),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", UNKNOWN),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>", ""),
        ("void at::native::vectorized_elementwise_kernel<8, at::native::float16_copy_kernel_cuda>", ""),
        ("cast_to_bf16_kernel(float const*, __nv_bfloat16*)", ""),
    ],
)
def test_names(kernel, kind):
    assert tensor_type(kernel) == kind
