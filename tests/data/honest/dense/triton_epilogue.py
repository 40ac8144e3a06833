# runs: gpu
"""Bias and GELU in a Triton kernel."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def honest_bias_gelu(source, bias, target, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(source + at, mask=at < n) + tl.load(bias + at % columns, mask=at < n)
    tl.store(target + at, 0.5 * y * (1.0 + tl.math.erf(y * 0.7071067811865476)), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        y = x @ self.weight
        out = torch.empty_like(y)
        honest_bias_gelu[(triton.cdiv(y.numel(), 256),)](y, self.bias, out, y.numel(), y.shape[1], BLOCK=256)
        return out
