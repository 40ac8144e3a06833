# expect: no win
# runs: cpu
"""Leaves a dispatch mode on that sees every operation of the caller."""

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        Mode().__enter__()
        return torch.relu(x @ self.weight)
