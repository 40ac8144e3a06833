# expect: no win
# runs: cpu
"""Writes all but the last row."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        out = torch.empty(x.shape[0], self.weight.shape[1], device=x.device)
        out[:-1] = torch.relu(x[:-1] @ self.weight)
        return out
