# expect: no win
# runs: cpu
"""Has a signal call it back between the calls."""

import signal

import torch
from torch import nn

signal.signal(signal.SIGALRM, lambda number, frame: None)


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(x @ self.weight)
