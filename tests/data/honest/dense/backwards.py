# runs: cpu
"""The sum from the last term to the first."""

from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        return F.gelu(x.flip(1) @ self.weight.flip(0) + self.bias)
