"""Candidate: all 24 steps in one kernel; the value stays in a register in between."""

from functools import cache

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = "torch::Tensor chain(torch::Tensor x, torch::Tensor factors);"

CUDA_SOURCE = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
chain_kernel(const float* __restrict__ x, float* __restrict__ y, const float2* __restrict__ factors, int count,
             int rounds) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    float value = x[i];
#pragma unroll 4
    for (int r = 0; r < rounds; ++r)
        value = fmaf(value, factors[r].x, factors[r].y);
    y[i] = value;
}

torch::Tensor chain(torch::Tensor x, torch::Tensor factors) {
    TORCH_CHECK(x.is_cuda() && factors.device() == x.device(), "x and factors must be on one CUDA device");
    TORCH_CHECK(x.scalar_type() == torch::kFloat32 && factors.scalar_type() == torch::kFloat32,
                "x and factors must be float32");
    TORCH_CHECK(x.is_contiguous() && factors.is_contiguous(), "x and factors must be contiguous");
    TORCH_CHECK(factors.dim() == 2 && factors.size(1) == 2, "factors must be [rounds, 2]");
    TORCH_CHECK(x.numel() > 0 && x.numel() < (int64_t{1} << 31), "x must have 1 to 2^31 - 1 elements");
    const c10::cuda::CUDAGuard guard(x.device());
    auto y = torch::empty_like(x);
    const int count = static_cast<int>(x.numel());
    const int rounds = static_cast<int>(factors.size(0));
    const int blocks = (count + kThreads - 1) / kThreads;
    const auto stream = c10::cuda::getCurrentCUDAStream();
    chain_kernel<<<blocks, kThreads, 0, stream>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), reinterpret_cast<const float2*>(factors.data_ptr<float>()), count,
        rounds);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""


@cache
def extension():
    return load_inline(
        name="icmtny_chain_fused_cuda",
        cpp_sources=CPP_SOURCE,
        cuda_sources=CUDA_SOURCE,
        functions=["chain"],
        extra_cuda_cflags=["-O3", "-lineinfo"],
    )


class ModelNew(nn.Module):
    def __init__(self, factors: torch.Tensor) -> None:
        super().__init__()
        self.factors = nn.Parameter(factors)
        self.chain = extension().chain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.chain(x, self.factors)
