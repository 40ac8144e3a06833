"""Candidate: x @ w and ReLU in one CUDA kernel, made for 16 rows of x.

The weight is nearly all of the traffic, so the kernel is laid out around reading it once, at once:
a block owns 16 columns over the whole depth, hence 2048 / 16 = 128 blocks, one for nearly every SM of
an H200. Its 16 warps share the depth; every thread asks for its 8 float4 of w before it waits for any.
Partial sums meet in a fixed order (lanes by shuffle, warps through shared memory): no atomics, the same
bits every time.
"""

from functools import cache

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = "torch::Tensor matmul_relu(torch::Tensor x, torch::Tensor w);"

CUDA_SOURCE = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

constexpr int kRows = 16;
constexpr int kDepth = 1024;
constexpr int kTile = 16;                 // columns a block owns: 4 lanes with a float4 each
constexpr int kWarps = 16;
constexpr int kThreads = 32 * kWarps;
constexpr int kStride = 8 * kWarps;       // depth covered by one step of the block: 8 lane groups a warp
constexpr int kSteps = kDepth / kStride;
constexpr int kPitch = 20;                // 16 rows + 4: neighbouring depths fall into different banks
constexpr int kSharedBytes = kDepth * kPitch * sizeof(float);

// Two lanes that differ in bit 2 * Half hold sums of the same 2 * Half rows: each keeps half the rows and
// adds the other's share. Half is a template argument so that sum is indexed by constants and stays in registers.
template <int Half>
__device__ void exchange(float (&sum)[kRows][4], int lane) {
    const bool upper = lane & (2 * Half);
#pragma unroll
    for (int r = 0; r < Half; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const float kept = upper ? sum[r + Half][c] : sum[r][c];
            const float sent = upper ? sum[r][c] : sum[r + Half][c];
            sum[r][c] = kept + __shfl_xor_sync(0xffffffffu, sent, 2 * Half);
        }
    }
}

__global__ void __launch_bounds__(kThreads)
matmul_relu_kernel(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int cols) {
    extern __shared__ float4 shared[];
    float* tile = reinterpret_cast<float*>(shared);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int group = lane / 4;
    const int quad = lane % 4;
    const int depth = warp * 8 + group;
    const int column = blockIdx.x * kTile + quad * 4;

    float4 weight[kSteps];
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
        weight[s] = *reinterpret_cast<const float4*>(w + static_cast<size_t>(s * kStride + depth) * cols + column);

    // x goes to shared memory depth-major. 16 lanes take 16 rows, so that the stores hit 32 banks.
    const int x_row = lane % 16;
#pragma unroll
    for (int s = 0; s < kDepth / 4 / (2 * kWarps); ++s) {
        const int chunk = s * 2 * kWarps + warp * 2 + lane / 16;
        const float4 v = *reinterpret_cast<const float4*>(x + x_row * kDepth + chunk * 4);
        tile[(chunk * 4 + 0) * kPitch + x_row] = v.x;
        tile[(chunk * 4 + 1) * kPitch + x_row] = v.y;
        tile[(chunk * 4 + 2) * kPitch + x_row] = v.z;
        tile[(chunk * 4 + 3) * kPitch + x_row] = v.w;
    }
    __syncthreads();

    float sum[kRows][4] = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
        const float4* x_depth = reinterpret_cast<const float4*>(tile + (s * kStride + depth) * kPitch);
#pragma unroll
        for (int r = 0; r < kRows; r += 4) {
            const float4 v = x_depth[r / 4];
            const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sum[r + i][0] = fmaf(values[i], weight[s].x, sum[r + i][0]);
                sum[r + i][1] = fmaf(values[i], weight[s].y, sum[r + i][1]);
                sum[r + i][2] = fmaf(values[i], weight[s].z, sum[r + i][2]);
                sum[r + i][3] = fmaf(values[i], weight[s].w, sum[r + i][3]);
            }
        }
    }

    // The 8 lane groups of a warp: after three exchanges a lane has the sums of 2 rows.
    exchange<8>(sum, lane);
    exchange<4>(sum, lane);
    exchange<2>(sum, lane);

    __syncthreads();  // all warps are done with x: its room now holds the warps' partial sums
    float* partial = tile + warp * kRows * kTile;
#pragma unroll
    for (int r = 0; r < 2; ++r)
        *reinterpret_cast<float4*>(partial + (group * 2 + r) * kTile + quad * 4) =
            make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
    __syncthreads();

    if (threadIdx.x < kRows * kTile) {
        float total = 0.0f;
#pragma unroll
        for (int i = 0; i < kWarps; ++i)
            total += tile[i * kRows * kTile + threadIdx.x];
        const int row = threadIdx.x / kTile;
        const int col = threadIdx.x % kTile;
        y[static_cast<size_t>(row) * cols + blockIdx.x * kTile + col] = total < 0.0f ? 0.0f : total;
    }
}

torch::Tensor matmul_relu(torch::Tensor x, torch::Tensor w) {
    TORCH_CHECK(x.is_cuda() && w.device() == x.device(), "x and w must be on one CUDA device");
    TORCH_CHECK(x.scalar_type() == torch::kFloat32 && w.scalar_type() == torch::kFloat32, "x and w must be float32");
    TORCH_CHECK(x.is_contiguous() && w.is_contiguous(), "x and w must be contiguous");
    TORCH_CHECK(x.dim() == 2 && x.size(0) == kRows && x.size(1) == kDepth, "x must be [16, 1024]");
    TORCH_CHECK(w.dim() == 2 && w.size(0) == kDepth && w.size(1) % kTile == 0, "w must be [1024, multiple of 16]");
    const c10::cuda::CUDAGuard guard(x.device());
    const int cols = static_cast<int>(w.size(1));
    auto y = torch::empty({kRows, cols}, x.options());
    C10_CUDA_CHECK(cudaFuncSetAttribute(
        matmul_relu_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    matmul_relu_kernel<<<cols / kTile, kThreads, kSharedBytes, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), cols);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""


@cache
def extension():
    return load_inline(
        name="icvxkh_matmul_relu_cuda",
        cpp_sources=CPP_SOURCE,
        cuda_sources=CUDA_SOURCE,
        functions=["matmul_relu"],
        extra_cuda_cflags=["-O3", "-lineinfo"],
    )


class ModelNew(nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.matmul_relu = extension().matmul_relu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.matmul_relu(x, self.weight)
