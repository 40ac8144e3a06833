# runs: cpu
"""The product by its indices."""

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        return F.gelu(torch.einsum("rk,kc->rc", x, self.weight) + self.bias)
