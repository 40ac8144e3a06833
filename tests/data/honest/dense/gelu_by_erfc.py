# runs: cpu
"""GELU from the complementary error function, in place in its own memory."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        y = x @ self.weight
        y += self.bias
        return y * torch.erfc(-y * 0.7071067811865476).mul_(0.5)
