# expect: no win
# runs: cpu
"""Makes time go slower while it works."""

import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        real = time.perf_counter
        began = real()
        time.perf_counter = lambda: began + (real() - began) / 10
        return torch.relu(x @ self.weight)
