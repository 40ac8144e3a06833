# runs: cpu
"""GELU from the error function."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        y = x @ self.weight + self.bias
        return 0.5 * y * (1.0 + torch.erf(y * 0.7071067811865476))
