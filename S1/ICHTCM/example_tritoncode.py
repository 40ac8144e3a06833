"""Candidate: a tiled bf16 matmul in Triton; on sm_90 tl.dot becomes wgmma.

One fixed configuration instead of autotuning, so that every run times the same kernel: 128 x 256 tiles of
c, steps of 64 in depth, 8 warps (two warp groups), three stages of loads under way.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_M, BLOCK_N, BLOCK_K = 128, 256, 64
GROUP_M = 8
NUM_WARPS, NUM_STAGES = 8, 3


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    # Tiles run down GROUP_M rows of tiles before they step right: what runs together shares a and b in L2.
    pid = tl.program_id(0)
    tiles_m: tl.constexpr = M // BLOCK_M
    tiles_n: tl.constexpr = N // BLOCK_N
    group = pid // (GROUP_M * tiles_n)
    rows_here = min(tiles_m - group * GROUP_M, GROUP_M)
    within = pid % (GROUP_M * tiles_n)
    tile_m = group * GROUP_M + within % rows_here
    tile_n = within // rows_here

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depths = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + depths[None, :]
    b_ptrs = b_ptr + depths[:, None] * N + cols[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc.to(tl.bfloat16))


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a[M, K] @ b[K, N] in bf16; sizes are multiples of the tile's, below 2^31 elements."""
    m, k = a.shape
    n = b.shape[1]
    if b.shape[0] != k or m % BLOCK_M or n % BLOCK_N or k % BLOCK_K or max(m * k, k * n, m * n) >= 2**31:
        raise ValueError(f"sizes do not fit the tiles: a {tuple(a.shape)}, b {tuple(b.shape)}")
    if a.dtype != torch.bfloat16 or b.dtype != torch.bfloat16:
        raise ValueError(f"a and b must be bfloat16, not {a.dtype} and {b.dtype}")
    if not (a.is_contiguous() and b.is_contiguous()):
        raise ValueError("a and b must be contiguous")
    c = torch.empty(m, n, dtype=a.dtype, device=a.device)
    grid = ((m // BLOCK_M) * (n // BLOCK_N),)
    matmul_kernel[grid](
        a, b, c, m, n, k, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps=NUM_WARPS, num_stages=NUM_STAGES
    )
    return c


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return matmul(a, b)
