# runs: cpu
"""The sum in sixteen parts, added at the end."""

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        parts = [a @ b for a, b in zip(x.chunk(16, 1), self.weight.chunk(16, 0), strict=True)]
        return F.gelu(torch.stack(parts).sum(0) + self.bias)
