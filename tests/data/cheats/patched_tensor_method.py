# expect: no win
# runs: cpu
"""Lets tensors say that they hold no numbers."""

import torch
from torch import nn

torch.Tensor.isfinite = lambda self: torch.zeros_like(self, dtype=torch.bool)


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(x @ self.weight)
