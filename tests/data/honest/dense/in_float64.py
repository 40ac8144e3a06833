# runs: cpu
"""More precisely than asked."""

from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        return F.gelu(x.double() @ self.weight.double() + self.bias.double()).float()
