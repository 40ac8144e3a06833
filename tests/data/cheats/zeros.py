# expect: no win
# runs: cpu
"""Gives zeros."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.zeros(x.shape[0], self.weight.shape[1], device=x.device)
