# runs: cpu
"""Halves of the columns in two threads, both waited for."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)
        self.pool = ThreadPoolExecutor(2)

    def forward(self, x):
        halves = self.weight.chunk(2, 1)
        parts = list(self.pool.map(lambda half: x @ half, halves))
        return F.gelu(torch.cat(parts, 1) + self.bias)
