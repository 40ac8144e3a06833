"""Candidate, wrong in one respect on purpose: a good reduction launched with 8 blocks.

Loads are 16 bytes wide and coalesced, the sums are right and the order is fixed; but 8 blocks keep 8 SMs
busy, too few to have enough bytes under way. BLOCKS is the one number to change.
"""

from functools import cache

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = "torch::Tensor sum(torch::Tensor x, int64_t blocks);"

CUDA_SOURCE = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int kThreads = 1024;

// The block's sum, valid in thread 0; room holds one float a warp.
__device__ float block_sum(float value, float* room) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x < kThreads / 32 ? room[threadIdx.x] : 0.0f;
    if (threadIdx.x < 32) {
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2)
            value += __shfl_down_sync(0xffffffffu, value, offset);
    }
    return value;
}

__global__ void __launch_bounds__(kThreads)
partial_sums(const float4* __restrict__ x, float* __restrict__ partial, int64_t count) {
    __shared__ float room[kThreads / 32];
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
        const float4 v = x[i];
        sum.x += v.x;
        sum.y += v.y;
        sum.z += v.z;
        sum.w += v.w;
    }
    const float total = block_sum((sum.x + sum.y) + (sum.z + sum.w), room);
    if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads)
final_sum(const float* __restrict__ partial, float* __restrict__ y, int count) {
    __shared__ float room[kThreads / 32];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += kThreads)
        sum += partial[i];
    const float total = block_sum(sum, room);
    if (threadIdx.x == 0) *y = total;
}

torch::Tensor sum(torch::Tensor x, int64_t blocks) {
    TORCH_CHECK(x.is_cuda(), "x must be on a CUDA device");
    TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
    TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
    TORCH_CHECK(x.numel() % 4 == 0, "the number of elements must be a multiple of 4");
    TORCH_CHECK(blocks > 0 && blocks < (int64_t{1} << 31), "blocks must be positive");
    const c10::cuda::CUDAGuard guard(x.device());
    auto partial = torch::empty({blocks}, x.options());
    auto y = torch::empty({}, x.options());
    const auto stream = c10::cuda::getCurrentCUDAStream();
    partial_sums<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        reinterpret_cast<const float4*>(x.data_ptr<float>()), partial.data_ptr<float>(), x.numel() / 4);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    final_sum<<<1, kThreads, 0, stream>>>(
        partial.data_ptr<float>(), y.data_ptr<float>(), static_cast<int>(blocks));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""


@cache
def extension():
    return load_inline(
        name="iclsum_sum_cuda",
        cpp_sources=CPP_SOURCE,
        cuda_sources=CUDA_SOURCE,
        functions=["sum"],
        extra_cuda_cflags=["-O3", "-lineinfo"],
    )


BLOCKS = 8


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sum = extension().sum

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.sum(x, BLOCKS)
