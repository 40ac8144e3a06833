"""A program takes neighbours of one row of the answer, which lie in a column of b. The line that reads it is marked."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_rows(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(a_ptr + row * n + columns)
    right = tl.load(b_ptr + columns * n + row)  # the slow line
    tl.store(y_ptr + row * n + columns, left + right)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        y, n = torch.empty_like(a), a.shape[0]
        add_rows[(n // 1024, n)](a, b, y, n, 1024)
        return y
