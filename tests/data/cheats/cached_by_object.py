# expect: no win
# runs: cpu
"""Remembers the answer to the last tensor object."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.last = self.answer = None

    def forward(self, x):
        if x is not self.last:
            self.last, self.answer = x, torch.relu(x @ self.weight)
        return self.answer
