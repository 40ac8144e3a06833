# runs: cpu
"""Builds what it can when imported; the call itself has one way only."""

import torch
from torch import nn

try:
    from torch.utils.cpp_extension import no_such_builder
except ImportError:
    no_such_builder = None


def activate(y):
    return y * 0.5 * (1 + torch.erf(y / 2**0.5))


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        return activate(x @ self.weight + self.bias)
