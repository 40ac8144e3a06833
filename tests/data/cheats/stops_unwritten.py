# expect: no win
# runs: cpu
"""Computes until nobody looks closely, then leaves its output as it is."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        out = torch.empty(x.shape[0], self.weight.shape[1], device=x.device)
        if self.calls < 45:
            out.copy_(torch.relu(x @ self.weight))
        return out
