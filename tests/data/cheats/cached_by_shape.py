# expect: no win
# runs: cpu
"""Remembers answers by the shape of the input."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.known = {}

    def forward(self, x):
        if x.shape not in self.known:
            self.known[x.shape] = torch.relu(x @ self.weight)
        return self.known[x.shape]
