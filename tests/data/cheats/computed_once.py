# expect: no win
# runs: cpu
"""Computes at the first call and never again."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.answer = None

    def forward(self, x):
        if self.answer is None:
            self.answer = torch.relu(x @ self.weight)
        return self.answer.clone()
