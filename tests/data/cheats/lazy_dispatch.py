# expect: no win
# runs: cpu
"""Gives a wrapper without memory whose operators compute behind the dispatcher."""

import torch
from torch import nn


class Promise(torch.Tensor):
    @staticmethod
    def __new__(cls, work, shape, device):
        shell = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.float32, device=device)
        shell.work = work
        return shell

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        done = [a.work() if isinstance(a, cls) else a for a in args]
        return func(*done, **(kwargs or {}))


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        shape = (x.shape[0], self.weight.shape[1])
        return Promise(lambda: torch.relu(x @ self.weight), shape, x.device)
