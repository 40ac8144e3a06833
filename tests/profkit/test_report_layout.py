"""Tables that fit, columns that say something, each caveat once, and names that people use."""

import re

import pytest
from click.testing import CliRunner
from synthetic_runs import two_parts

from collectors.caveat import Caveat
from profkit.cli.group import cli
from profkit.report.layout import Column, Table, terminal_table
from profkit.report.messages import bound, bound_word
from profkit.report.names import short_name, short_names
from profkit.report.sections import caveats, tables
from profkit.report.writers import markdown, terminal
from roofline import units
from roofline.units import seconds

WIDE = Table.of(
    [
        Column("kernel", ["k" * 40, "gelu"]),
        Column("time [us]", ["12.3", "4.56"]),
        Column("of peak", ["12.3%", "4.56%"], 5),
        Column("FLOP/B", ["0.1", "0.2"], 6),
        Column("bound by", ["dram", "latency"], 2),
    ]
)


@pytest.mark.parametrize("width", [200, 80, 70, 60, 50, 40])
def test_a_table_fits_the_width_there_is(width):
    lines = terminal_table(WIDE, width).splitlines()
    table = lines[:4]
    assert "".join(lines[4:]).startswith("(too narrow here for: ") or not lines[4:]
    assert all(len(line) <= width for line in lines)
    assert "time [us]" in table[0]


def test_columns_leave_by_rank_and_are_named():
    text = terminal_table(WIDE, 72)
    assert "FLOP/B" not in text.splitlines()[0]
    assert "of peak" in text.splitlines()[0]
    assert text.endswith("(too narrow here for: FLOP/B)\n")
    assert "too narrow" not in terminal_table(WIDE, 200)


def test_a_pipe_and_a_file_hold_every_column(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert "too narrow" not in terminal_table(WIDE)
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, terminal_table(WIDE).splitlines())) <= 60


def test_wide_characters_take_two_places():
    text = terminal_table(Table(["名称", "n"], [["屋顶线", "1"], ["ab", "22"]]))
    assert text.splitlines()[2:] == ["屋顶线  1", "ab      22"]


NAMES = r"""
bf16 GEMM 256x128 (cuBLAS) = nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT
fp32 GEMM 64x64 (cuBLAS) = sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_x
tf32 GEMM 128x128 (cuBLAS) = sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1
fp64 GEMM 128x64 (cuBLAS) = sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x16_stage3_warpsize2x2x1
bf16 GEMM 128x128 (cuBLAS) = ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn
fp32 GEMM 128x64 (cuBLAS) = ampere_sgemm_128x64_tn
fp32 GEMM 128x32 (cuBLAS) = volta_sgemm_128x32_nn
fp32 GEMM 128x32 (CUTLASS) = void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(T1::Params)
tf32 GEMM 128x128 (CUTLASS) = cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4
sum of split K (cuBLAS) = void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasLt::P<T6>)
gelu (ATen) = void at::vectorized_elementwise_kernel<4, at::GeluCUDAKernelImpl(at::TensorIteratorBase &,
    at::GeluType)::[lambda() (instance 2)]>(int)
add (ATen) = void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,
    std::array<char*, 3ul> >(int)
mean (ATen) = void at::reduce_kernel<512, 1, at::ReduceOp<float, at::MeanOps<float, float>>>(T3)
native_layer_norm (Triton) = triton_per_fused_native_layer_norm_0
gelu backward (ATen) = void at::native::vectorized_elementwise_kernel<8,
    at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()()
    const>(int)
silu (ATen) = void at::native::vectorized_elementwise_kernel<8, at::native::(anonymous
    namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}::operator()() const::{la
argmax (ATen) = void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>
mul (ATen) = void at::native::elementwise_kernel<128, 2,
    at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<long, long, long, at::native::binary_internal::MulFunct
elementwise (ATen) = void at::native::elementwise_kernel<128, 4,
    at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<c10::BFl
tf32 convolution dgrad 256x64 (cuDNN) =
    sm90_xmma_dgrad_implicit_gemm_indexed_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize256x64x32_warpgroupsize1x1x1
tf32 convolution dgrad 256x64 (CUTLASS) = void
    cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_256x64_16x4_nhwc_unity_stride>()
convolution (CUTLASS) = _ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock22
batch norm backward (cuDNN) = void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 128, true, 1>(float)
batch norm forward (cuDNN) = void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(cudnn::A<float>)
NCHW to NHWC (cuDNN) = void cudnn::engines_precompiled::nchwToNhwcKernel<float, float>(P<float>)
tf32 convolution wgrad 128x128 (cuDNN) =
    sm90_xmma_wgrad_indexed_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32_warpgroupsize1x1x1_x
tf32 convolution fprop 128x64 (cuDNN) =
    sm80_xmma_fprop_implicit_gemm_indexed_wo_smem_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x64x32_stage5_x
AllReduce (NCCL) = ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)
AllGather (NCCL) = ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*)
radix sort histogram (CUB) = void
    at_cuda_detail::cub::DeviceRadixSortHistogramKernel<at_cuda_detail::cub::DeviceRadixSortPolicy<int>>(int*)
fused optimizer (ATen) = void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous
    namespace)::FusedOptimizerTensorListMetadata<4>, F>(T)
foreach (ATen) = void at::native::(anonymous namespace)::multi_tensor_apply_kernel<M<1>, LpNormFunctor<float>>(M)
max_pool backward (ATen) = void at::native::(anonymous namespace)::max_pool_backward_nchw<float, float, int>(float)
layer_norm backward (ATen) = void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<float>(T)
copy (ATen) = void at::native::elementwise_kernel<128, 2,
    at::native::gpu_kernel_impl<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}>(at::TensorIteratorBase&)>(int)
matmul_relu_kernel = matmul_relu_kernel(const float *, const float *, float *, int)
my_elementwise_kernel = void mine::my_elementwise_kernel<AddFunctor<float>>(int)
copy_blocked[v1](Array<long>, int) = copy_blocked[v1](Array<long>, int)
"""
"""What people call a kernel, and its name, at times as a tool has cut it; what is no library's keeps its own."""


@pytest.mark.parametrize("row", re.sub(r"\n +", " ", NAMES).strip().splitlines())
def test_names_people_use(row):
    short, _, kernel = row.partition(" = ")
    assert short_name(kernel) == short


def test_two_kernels_of_one_short_name_are_told_apart():
    names = ["nvjet_sm90_tst_64x8_a_NNT", "nvjet_sm90_tst_64x8_a_bias_NNT", "relu(int)"]
    assert list(short_names(names).values()) == ["bf16 GEMM 64x8 (cuBLAS)", "bf16 GEMM 64x8 (cuBLAS) #2", "relu"]
    long = [f"{'tendency_cache_' * 6}_L{line}" for line in (1, 2)]
    assert len(set(short_names(long, 48).values())) == 2


def row(**values):
    return {"speedup": 12.02, "speedup_low": 12.01, "speedup_high": 12.03, "verdict": "faster", **values}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "12.02x [12.01, 12.03]"),
        ({"speedup": 1.727, "speedup_low": 1.71, "speedup_high": 1.74}, "1.73x [1.71, 1.74]"),
        ({"speedup_low": 12.02, "speedup_high": 12.02}, "12.0x"),
        ({"verdict": "reference"}, "-"),
        ({"speedup": float("nan")}, "-"),
    ],
)
def test_an_interval_shows_its_ends_or_is_not_there(values, said):
    assert tables.speedup(row(**values)) == said


@pytest.fixture
def study(tmp_path):
    return two_parts(tmp_path / "r")


def test_each_caveat_is_told_once_with_whom_it_concerns(study):
    found = (
        Caveat("cuda: the device was slowed", "2 x", "look"),
        Caveat("reference: the device was slowed", "3 x", "look"),
        Caveat("too fast", "9 x", "check", about="cuda"),
        Caveat("noise", "1 %"),
    )
    object.__setattr__(study.analysis, "caveats", found)
    said = [(one.what, one.how_much) for one in caveats.all_caveats(study)]
    assert said == [
        ("the device was slowed", "cuda 2 x; reference 3 x"),
        ("cuda: too fast", "9 x"),
        ("noise", "1 %"),
    ]
    for text in (markdown.report(study), terminal.summary(study)):
        assert text.count("the device was slowed") == 1


def test_colour_is_for_terminals_that_want_it(study, monkeypatch):
    """By the environment: test_terminal."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b[" in terminal.summary(study)
    line = ["report", str(study.path)]
    assert "\x1b[" not in CliRunner().invoke(cli, line).output, "a pipe"


@pytest.mark.parametrize("value", [3e-9, 1.0e-6, 23.34e-6, 999.4e-6, 999.61e-6, 0.99951, 1.0, 61.5])
def test_seconds_are_written_in_one_way(value):
    """Said before: 1000 us in a table, 1.00 ms in the finding beside it."""
    said = seconds(value)
    assert units.text(value, "s") == said
    unit, (cell,) = units.column([value], "s")
    assert f"{cell} {unit}" == said


def test_full_issue_slots_are_not_called_latency():
    row = {"bound_by": "latency", "cause": "issue"}
    assert bound(row) == bound_word(row) == "instruction issue"
    assert bound_word({**row, "cause": "stalls"}) == "latency"
