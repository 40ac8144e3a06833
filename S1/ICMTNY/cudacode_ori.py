"""First attempt: the same 24 launches, from C++ instead of Python.

The interpreter and the operator dispatch are gone, the 24 launches and the gaps between them are not.
"""

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

__global__ void scale_kernel(const float* x, float* y, const float* factor, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < count) y[i] = x[i] * *factor;
}

__global__ void shift_kernel(const float* x, float* y, const float* factor, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < count) y[i] = x[i] + *factor;
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
    TORCH_CHECK(rounds > 0, "factors must not be empty");
    const float* factor = factors.data_ptr<float>();
    const float* from = x.data_ptr<float>();
    float* to = y.data_ptr<float>();
    for (int i = 0; i < rounds; ++i) {
        scale_kernel<<<blocks, kThreads, 0, stream>>>(from, to, factor + 2 * i, count);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
        shift_kernel<<<blocks, kThreads, 0, stream>>>(to, to, factor + 2 * i + 1, count);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
        from = to;
    }
    return y;
}
"""


@cache
def extension():
    return load_inline(
        name="icmtny_chain_launches_cuda",
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
