# runs: cpu
"""Keeps a transposed copy of its weights from the first call on."""

from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)
        self.turned = None

    def forward(self, x):
        if self.turned is None:
            self.turned = self.weight.t().contiguous()
        return F.gelu(F.linear(x, self.turned, self.bias))
