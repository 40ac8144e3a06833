from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import launches

from analyzers.kernels.provenance import provenance
from analyzers.kernels.spelling import base_name, is_authored, one_spelling, plain_name, same_kernels
from collectors import read
from profkit.targets.source import authored_names

EXAMPLES = Path(__file__).parents[2] / "examples" / "h200"

CUDA = r"""
#include <cuda.h>
// __global__ void commented_out(float* x) {}
/* __global__ void also_commented() {} */
template <typename T, int N>
__global__ void __launch_bounds__(256, 2) gemm_kernel(const T* a, T* b) { helper(a); }
static __global__ __cluster_dims__((2), 1, 1) void
    relu_kernel (float* x) { }
extern "C" __global__ void plain(int n);
__device__ float helper(float x) { return x; }
void __global__ turned(int n) { }
#define NAME __global__
"""

PYTHON = '''
"""A module that speaks of __global__ functions such as words(x) and nothing more."""
import triton
import triton.language as tl
from torch.utils.cpp_extension import load_inline
# __global__ void comment(float* x)
source = """CUDA"""
@triton.autotune(configs=[], key=["n"])
@triton.jit
def add_kernel(x, y, n: tl.constexpr):
    pass
@triton.jit(do_not_specialize=["n"])
def scale_kernel(x): pass
@torch.jit.script
def no_kernel(x): return x
class ModelNew: pass
'''.replace("CUDA", CUDA)


OWN = {"gemm_kernel", "relu_kernel", "plain", "turned"}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (CUDA, OWN),
        (PYTHON, OWN | {"add_kernel", "scale_kernel"}),
        *(
            (broken, set())
            for broken in ("", "__global__", "__global__ void", "__global__ __launch_bounds__(", "def (")
        ),
    ],
)
def test_names_that_a_source_defines(source, names):
    assert authored_names(source) == names


@given(st.text())
def test_any_text_is_read(source):
    assert all(name.isidentifier() for name in authored_names(source))


@pytest.mark.parametrize(
    ("kernel", "base"),
    [
        ("relu_kernel(const float *, float *, long)", "relu_kernel"),
        ("void ns::(anonymous namespace)::scale<float, (int)4>(float*)", "scale"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::F<a<b>>, int>(int, T)",
            "vectorized_elementwise_kernel",
        ),
        ("void <unnamed>::k<(bool)1>(int)", "k"),
        ("add_kernel_0d1d2de", "add_kernel_0d1d2de"),
        ("sm80_xmma_gemm_f32f32", "sm80_xmma_gemm_f32f32"),
        ("", ""),
    ],
)
def test_base_name(kernel, base):
    assert base_name(kernel) == base


def test_matching_is_of_whole_names():
    assert is_authored("void gemm<float>(float*)", {"gemm"})
    assert is_authored("add_kernel_0d1d2de3", {"add_kernel"})
    assert not is_authored("gemm_library(float*)", {"gemm"})
    assert not is_authored("add_kernel_2", {"add_kernel_"})


def frame(*rows):
    return launches(*({"kernel": kernel, "time": time} for kernel, time in rows))


def test_share_of_time_in_own_kernels():
    p = provenance(frame(("mine(int)", 3.0), ("void cublas::gemm<1>(int)", 5.0), ("mine(int)", 2.0)), {"mine", "other"})
    assert p.fraction == 0.5
    assert (p.authored, p.library, p.unlaunched) == (("mine(int)",), ("void cublas::gemm<1>(int)",), ("other",))
    assert not p.never_launched
    assert p.caveat("c") is None


def test_a_kernel_that_never_ran():
    p = provenance(frame(("void cublas::gemm<1>(int)", 5.0)), {"mine"})
    assert (p.fraction, p.never_launched) == (0.0, True)
    assert "mine" in p.caveat("c").how_much
    assert "gemm" in p.caveat("c").how_much
    mostly = provenance(frame(("mine()", 1.0), ("gemm()", 9.0)), {"mine"})
    assert "10%" in mostly.caveat("c").how_much


@pytest.mark.parametrize("folder", sorted(one.parent for one in EXAMPLES.glob("*/cupti.csv")), ids=lambda one: one.name)
def test_ncu_and_cupti_name_the_same_kernels(folder):
    """Of each recorded sample: every kernel that one has the other has, and no two become one."""
    names = [
        set(frame.loc[frame["kind"] == "kernel", "kernel"])
        for frame in (read(folder / "ncu.csv", "ncu"), read(folder / "cupti.csv", "cupti"))
    ]
    found = same_kernels(*names)
    assert set(found) == names[0]
    assert set(found.values()) == {plain_name(name) for name in names[1]}
    assert len(set(found.values())) == len(found)


def test_kernels_that_differ_in_their_namespace_alone_are_not_taken_for_each_other():
    recorded = ["naive::gemm(float*, int)", "tiled::gemm(float*, int)", "void a::b::f<c::g>(int)"]
    assert same_kernels(["tiled::gemm(float *, int)"], recorded) == {
        "tiled::gemm(float *, int)": "tiled::gemm(float*,int)"
    }
    # ncu names neither: it may be any of the two.
    assert same_kernels(["gemm(float *, int)", "void f<g>(int)"], recorded) == {
        "void f<g>(int)": "voida::b::f<c::g>(int)"
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("void f<int>(int *)", "void f<float>(T1 *)"),
        ("f(int *)", "f(float*)"),
        ("void f<4>(int)", "void f<8>(int)"),
        ("void f<true>(int)", "void f<0>(int)"),
        ("void g<h()::{lambda(float)#1}>(int)", "void g<h()::{lambda(float)#2}>(int)"),
        ("void g<h()::{lambda(float)#1}>(int)", "void g<h()::[lambda(int) (instance 1)]>(int)"),
        ("nvjet_sm90_128x128", "nvjet_sm90_128x256"),
    ],
)
def test_different_kernels_stay_different(one, other):
    assert one_spelling(one) != one_spelling(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("void f<(int)4, (bool)1>(int *)", "void f<4, true>(T1*)"),
        (
            "void a::b::f<a::b::op<float>, std::array<char *, (unsigned long)2>>(T1)",
            "void f<op<float>, std::array<char*, 2ul> >(op<float>)",
        ),
        ("f(const float *, int)", "f(float const*, int)"),
        ("<unnamed>::f(int)", "(anonymous namespace)::f(int)"),
    ],
)
def test_one_kernel_is_spelt_in_many_ways(one, other):
    assert one_spelling(one) == one_spelling(other)
