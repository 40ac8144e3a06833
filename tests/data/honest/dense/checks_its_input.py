# runs: cpu
"""Refuses what it cannot do and says what went wrong."""

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        if x.dim() != 2:
            raise ValueError(f"two dimensions wanted, {x.dim()} given")
        try:
            y = torch.addmm(self.bias, x, self.weight)
        except RuntimeError as error:
            raise RuntimeError(f"no product of {tuple(x.shape)} and {tuple(self.weight.shape)}") from error
        return F.gelu(y)
