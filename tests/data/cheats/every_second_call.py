# expect: no win
# runs: cpu
"""Gives the last answer again at every second call."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.calls = 0
        self.answer = None

    def forward(self, x):
        self.calls += 1
        if self.calls % 2 or self.answer.shape[0] != x.shape[0]:
            self.answer = torch.relu(x @ self.weight)
        return self.answer.clone()
