"""Candidate: RMSNorm in one pass, a block of 256 threads a token.

16 halves a thread stay in registers between the sum of squares and the scaling, so x is read once and
nothing in fp32 ever goes to memory. Arithmetic is fp32 throughout.
"""

from functools import cache

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = "torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps);"

CUDA_SOURCE = r"""
#include <cuda_fp16.h>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int kHidden = 4096;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kPieces = kHidden / 8 / kThreads;

union Piece {  // 16 bytes: one load or store, 8 halves
    uint4 bits;
    __half2 pair[4];
};

__global__ void __launch_bounds__(kThreads)
rms_norm_kernel(const uint4* __restrict__ x, const uint4* __restrict__ weight, uint4* __restrict__ y, float eps) {
    __shared__ float sums[kWarps];
    const size_t start = static_cast<size_t>(blockIdx.x) * (kHidden / 8) + threadIdx.x;
    Piece v[kPieces];
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
        v[i].bits = x[start + i * kThreads];

    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 f = __half22float2(v[i].pair[j]);
            sum = fmaf(f.x, f.x, sum);
            sum = fmaf(f.y, f.y, sum);
        }
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i)
        sum += sums[i];
    const float scale = rsqrtf(sum / kHidden + eps);

#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        Piece w;
        w.bits = weight[threadIdx.x + i * kThreads];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 f = __half22float2(v[i].pair[j]);
            const float2 g = __half22float2(w.pair[j]);
            v[i].pair[j] = __floats2half2_rn(f.x * scale * g.x, f.y * scale * g.y);
        }
        y[start + i * kThreads] = v[i].bits;
    }
}

torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps) {
    TORCH_CHECK(x.is_cuda() && weight.device() == x.device(), "x and weight must be on one CUDA device");
    TORCH_CHECK(x.scalar_type() == torch::kFloat16 && weight.scalar_type() == torch::kFloat16,
                "x and weight must be float16");
    TORCH_CHECK(x.is_contiguous() && weight.is_contiguous(), "x and weight must be contiguous");
    TORCH_CHECK(x.dim() == 2 && x.size(0) > 0 && x.size(1) == kHidden, "x must be [tokens, 4096]");
    TORCH_CHECK(weight.numel() == kHidden, "weight must have 4096 elements");
    const c10::cuda::CUDAGuard guard(x.device());
    auto y = torch::empty_like(x);
    rms_norm_kernel<<<static_cast<unsigned>(x.size(0)), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const uint4*>(x.data_ptr<at::Half>()),
        reinterpret_cast<const uint4*>(weight.data_ptr<at::Half>()),
        reinterpret_cast<uint4*>(y.data_ptr<at::Half>()),
        static_cast<float>(eps));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""


@cache
def extension():
    return load_inline(
        name="icgrms_rms_norm_cuda",
        cpp_sources=CPP_SOURCE,
        cuda_sources=CUDA_SOURCE,
        functions=["rms_norm"],
        extra_cuda_cflags=["-O3", "-lineinfo"],
    )


EPS = 1e-6


class ModelNew(nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.rms_norm = extension().rms_norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rms_norm(x, self.weight, EPS)
