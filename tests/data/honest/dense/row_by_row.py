# runs: cpu
"""Rows one after the other into an empty tensor."""

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        out = torch.empty(x.shape[0], self.weight.shape[1], device=x.device)
        for row in range(x.shape[0]):
            out[row] = F.gelu(x[row] @ self.weight + self.bias)
        return out
