# expect: no win
# runs: cpu
"""Gives a tensor subclass that computes when it is first used."""

import torch
from torch import nn


class Later(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            done = [a.work() if isinstance(a, cls) and hasattr(a, "work") else a for a in args]
            return func(*done, **(kwargs or {}))


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        shell = torch.empty(x.shape[0], self.weight.shape[1], device=x.device).as_subclass(Later)
        shell.work = lambda: torch.relu(x @ self.weight)
        return shell
