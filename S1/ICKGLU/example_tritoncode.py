"""Candidate: bias and exact GELU fused in one Triton kernel; x + bias never goes to memory."""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK = 1024
NUM_WARPS = 4


@triton.jit
def bias_gelu_kernel(x_ptr, bias_ptr, y_ptr, COLS: tl.constexpr, BLOCK: tl.constexpr):
    # A program takes BLOCK neighbours of one row.
    start = tl.program_id(0) * BLOCK
    offsets = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + start + offsets) + tl.load(bias_ptr + start % COLS + offsets)
    y = v * 0.5 * (1.0 + tl.math.erf(v * 0.7071067811865476))
    tl.store(y_ptr + start + offsets, y)


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """gelu(x[rows, cols] + bias[cols]) in fp32; cols is a multiple of BLOCK, below 2^31 elements."""
    cols = x.shape[-1]
    if bias.shape != (cols,) or cols % BLOCK or x.numel() >= 2**31:
        raise ValueError(f"sizes do not fit: x {tuple(x.shape)}, bias {tuple(bias.shape)}, block {BLOCK}")
    if x.dtype != torch.float32 or bias.dtype != torch.float32:
        raise ValueError(f"x and bias must be float32, not {x.dtype} and {bias.dtype}")
    if not (x.is_contiguous() and bias.is_contiguous()):
        raise ValueError("x and bias must be contiguous")
    y = torch.empty_like(x)
    bias_gelu_kernel[(x.numel() // BLOCK,)](x, bias, y, cols, BLOCK, num_warps=NUM_WARPS)
    return y


class ModelNew(nn.Module):
    def __init__(self, bias: torch.Tensor) -> None:
        super().__init__()
        self.bias = nn.Parameter(bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return bias_gelu(x, self.bias)
