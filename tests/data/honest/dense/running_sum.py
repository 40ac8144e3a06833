# runs: cpu
"""The sum in order, 32 terms at a time."""

from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        total = self.bias.expand(x.shape[0], -1).clone()
        for start in range(0, x.shape[1], 32):
            total += x[:, start : start + 32] @ self.weight[start : start + 32]
        return F.gelu(total)
