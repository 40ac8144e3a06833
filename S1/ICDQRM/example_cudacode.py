"""Candidate: a copy in 16-byte pieces, four of them in flight a thread."""

from functools import cache

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = "torch::Tensor copy(torch::Tensor x);"

CUDA_SOURCE = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>

constexpr int kThreads = 256;
constexpr int kPieces = 4;  // float4 a thread: enough bytes under way to cover the latency of DRAM
constexpr int kBlockPieces = kThreads * kPieces;

__global__ void __launch_bounds__(kThreads)
copy_kernel(float4* __restrict__ target, const float4* __restrict__ source, int64_t count) {
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kBlockPieces + threadIdx.x;
    float4 held[kPieces];
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
        if (first + i * kThreads < count) held[i] = source[first + i * kThreads];
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
        if (first + i * kThreads < count) target[first + i * kThreads] = held[i];
}

torch::Tensor copy(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda(), "x must be on a CUDA device");
    TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
    TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
    TORCH_CHECK(x.numel() % 4 == 0, "the number of elements must be a multiple of 4");
    TORCH_CHECK(reinterpret_cast<std::uintptr_t>(x.data_ptr<float>()) % 16 == 0, "x must be aligned to 16 bytes");
    const c10::cuda::CUDAGuard guard(x.device());
    auto y = torch::empty_like(x);
    const int64_t count = x.numel() / 4;
    if (count == 0) return y;
    const auto blocks = static_cast<unsigned>((count + kBlockPieces - 1) / kBlockPieces);
    copy_kernel<<<blocks, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<float4*>(y.data_ptr<float>()), reinterpret_cast<const float4*>(x.data_ptr<float>()), count);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""


@cache
def extension():
    return load_inline(
        name="icdqrm_copy_cuda",
        cpp_sources=CPP_SOURCE,
        cuda_sources=CUDA_SOURCE,
        functions=["copy"],
        extra_cuda_cflags=["-O3", "-lineinfo"],
    )


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.copy = extension().copy

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.copy(x)
