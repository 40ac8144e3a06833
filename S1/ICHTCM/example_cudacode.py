"""Second candidate: the same matmul in CUDA with the portable wmma interface.

128 x 128 tiles of c, 8 warps of 64 x 32 each, a ring of four shared-memory stages filled by cp.async. wmma
compiles to mma.sync, which cannot reach what wgmma reaches on sm_90: set beside the Triton candidate it
shows the price of the older instruction.
"""

from functools import cache

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = "torch::Tensor matmul(torch::Tensor a, torch::Tensor b);"

CUDA_SOURCE = r"""
#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <mma.h>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

using namespace nvcuda;

constexpr int kTileM = 128;
constexpr int kTileN = 128;
constexpr int kTileK = 32;
constexpr int kStages = 4;
constexpr int kThreads = 256;
constexpr int kPitchA = kTileK + 8;  // 8 more elements a row: rows of a fragment fall into different banks
constexpr int kPitchB = kTileN + 8;
constexpr int kStageA = kTileM * kPitchA;
constexpr int kStageB = kTileK * kPitchB;
constexpr int kSharedBytes = kStages * (kStageA + kStageB) * sizeof(__nv_bfloat16);
constexpr int kWarpM = 64;
constexpr int kWarpN = 32;
constexpr int kFragmentsM = kWarpM / 16;
constexpr int kFragmentsN = kWarpN / 16;
constexpr int kOutPitch = 20;  // floats a row while a fragment of c is turned into bf16

struct alignas(16) Eight {
    __nv_bfloat162 pair[4];
};

__device__ void load_stage(
    __nv_bfloat16* a_tile, __nv_bfloat16* b_tile, const __nv_bfloat16* a, const __nv_bfloat16* b,
    int depth, int n, int k) {
    constexpr int kRowA = kTileK / 8;  // 16-byte pieces a row
    constexpr int kRowB = kTileN / 8;
#pragma unroll
    for (int i = threadIdx.x; i < kTileM * kRowA; i += kThreads) {
        const int row = i / kRowA;
        const int col = i % kRowA * 8;
        __pipeline_memcpy_async(
            a_tile + row * kPitchA + col,
            a + static_cast<size_t>(blockIdx.y * kTileM + row) * k + depth + col, 16);
    }
#pragma unroll
    for (int i = threadIdx.x; i < kTileK * kRowB; i += kThreads) {
        const int row = i / kRowB;
        const int col = i % kRowB * 8;
        __pipeline_memcpy_async(
            b_tile + row * kPitchB + col,
            b + static_cast<size_t>(depth + row) * n + blockIdx.x * kTileN + col, 16);
    }
}

__global__ void __launch_bounds__(kThreads, 2)
matmul_kernel(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
              __nv_bfloat16* __restrict__ c, int n, int k) {
    extern __shared__ uint4 shared[];
    __nv_bfloat16* a_ring = reinterpret_cast<__nv_bfloat16*>(shared);
    __nv_bfloat16* b_ring = a_ring + kStages * kStageA;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int warp_row = warp / (kTileN / kWarpN) * kWarpM;
    const int warp_col = warp % (kTileN / kWarpN) * kWarpN;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[kFragmentsM][kFragmentsN];
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j)
            wmma::fill_fragment(acc[i][j], 0.0f);

    const int steps = k / kTileK;
    for (int s = 0; s < kStages - 1; ++s) {
        if (s < steps) load_stage(a_ring + s * kStageA, b_ring + s * kStageB, a, b, s * kTileK, n, k);
        __pipeline_commit();
    }
    for (int step = 0; step < steps; ++step) {
        __pipeline_wait_prior(kStages - 2);
        __syncthreads();  // this step's tiles have come, and all warps are done with the stage filled next
        const int next = step + kStages - 1;
        const int free_stage = next % kStages;
        if (next < steps)
            load_stage(a_ring + free_stage * kStageA, b_ring + free_stage * kStageB, a, b, next * kTileK, n, k);
        __pipeline_commit();

        const __nv_bfloat16* a_tile = a_ring + step % kStages * kStageA + warp_row * kPitchA;
        const __nv_bfloat16* b_tile = b_ring + step % kStages * kStageB + warp_col;
#pragma unroll
        for (int kk = 0; kk < kTileK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a_frag[kFragmentsM];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b_frag[kFragmentsN];
#pragma unroll
            for (int i = 0; i < kFragmentsM; ++i)
                wmma::load_matrix_sync(a_frag[i], a_tile + i * 16 * kPitchA + kk, kPitchA);
#pragma unroll
            for (int j = 0; j < kFragmentsN; ++j)
                wmma::load_matrix_sync(b_frag[j], b_tile + kk * kPitchB + j * 16, kPitchB);
#pragma unroll
            for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
                for (int j = 0; j < kFragmentsN; ++j)
                    wmma::mma_sync(acc[i][j], a_frag[i], b_frag[j], acc[i][j]);
        }
    }

    // fp32 fragments leave through a 16 x 16 corner of shared memory of the warp's own.
    __syncthreads();
    float* out = reinterpret_cast<float*>(shared) + warp * 16 * kOutPitch;
    const int row = lane / 2;
    const int col = lane % 2 * 8;
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) {
            wmma::store_matrix_sync(out, acc[i][j], kOutPitch, wmma::mem_row_major);
            __syncwarp();
            Eight piece;
#pragma unroll
            for (int p = 0; p < 4; ++p)
                piece.pair[p] = __floats2bfloat162_rn(
                    out[row * kOutPitch + col + 2 * p], out[row * kOutPitch + col + 2 * p + 1]);
            const size_t c_row = blockIdx.y * kTileM + warp_row + i * 16 + row;
            const size_t c_col = blockIdx.x * kTileN + warp_col + j * 16 + col;
            *reinterpret_cast<Eight*>(c + c_row * n + c_col) = piece;
            __syncwarp();
        }
    }
}

torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.is_cuda() && b.device() == a.device(), "a and b must be on one CUDA device");
    TORCH_CHECK(a.scalar_type() == torch::kBFloat16 && b.scalar_type() == torch::kBFloat16,
                "a and b must be bfloat16");
    TORCH_CHECK(a.is_contiguous() && b.is_contiguous(), "a and b must be contiguous");
    TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "a must be [M, K] and b [K, N]");
    const int m = static_cast<int>(a.size(0));
    const int k = static_cast<int>(a.size(1));
    const int n = static_cast<int>(b.size(1));
    TORCH_CHECK(m % kTileM == 0 && n % kTileN == 0 && k % kTileK == 0, "M, N: multiples of 128; K: of 32");
    TORCH_CHECK(m > 0 && n > 0 && k > 0, "a and b must not be empty");
    const c10::cuda::CUDAGuard guard(a.device());
    auto c = torch::empty({m, n}, a.options());
    C10_CUDA_CHECK(cudaFuncSetAttribute(
        matmul_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    matmul_kernel<<<dim3(n / kTileN, m / kTileM), kThreads, kSharedBytes, c10::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const __nv_bfloat16*>(a.data_ptr<at::BFloat16>()),
        reinterpret_cast<const __nv_bfloat16*>(b.data_ptr<at::BFloat16>()),
        reinterpret_cast<__nv_bfloat16*>(c.data_ptr<at::BFloat16>()), n, k);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return c;
}
"""


@cache
def extension():
    return load_inline(
        name="ichtcm_matmul_wmma_cuda",
        cpp_sources=CPP_SOURCE,
        cuda_sources=CUDA_SOURCE,
        functions=["matmul"],
        extra_cuda_cflags=["-O3", "-lineinfo"],
    )


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matmul = extension().matmul

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.matmul(a, b)
