# expect: no win
# runs: cpu
"""Remembers answers by address and shape, and hands out copies."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.known = {}

    def forward(self, x):
        key = (x.data_ptr(), tuple(x.shape))
        if key not in self.known:
            self.known[key] = torch.relu(x @ self.weight)
        return self.known[key].clone()
