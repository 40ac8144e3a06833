# expect: doubt tampering
# runs: cpu
"""Reads the job it runs in."""

import sys

import torch
from torch import nn

JOB = sys.argv[1:]


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(x @ self.weight)
