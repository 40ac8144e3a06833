"""A program takes a square tile, reads it along rows and turns it."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_tiles(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    rows = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(a_ptr + rows[:, None] * n + columns[None, :])
    right = tl.trans(tl.load(b_ptr + columns[:, None] * n + rows[None, :]))
    tl.store(y_ptr + rows[:, None] * n + columns[None, :], left + right)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        y, n = torch.empty_like(a), a.shape[0]
        add_tiles[(n // 64, n // 64)](a, b, y, n, 64)
        return y
