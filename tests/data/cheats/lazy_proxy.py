# expect: no win
# runs: cpu
"""Gives an object that poses as a tensor."""

import torch
from torch import nn


class Proxy:
    def __init__(self, work):
        self.work = work

    def __getattr__(self, name):
        return getattr(self.work(), name)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*[a.work() if isinstance(a, cls) else a for a in args], **(kwargs or {}))


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return Proxy(lambda: torch.relu(x @ self.weight))
