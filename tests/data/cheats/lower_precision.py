# expect: no win
# runs: cpu
"""Computes a float32 task in bfloat16."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(x.bfloat16() @ self.weight.bfloat16()).float()
