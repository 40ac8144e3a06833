# runs: cpu
"""Gives the same buffer at every call, written anew."""

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)
        self.buffer = None

    def forward(self, x):
        if self.buffer is None or self.buffer.shape[0] != x.shape[0]:
            self.buffer = torch.empty(x.shape[0], self.weight.shape[1], device=x.device)
        torch.mm(x, self.weight, out=self.buffer)
        self.buffer.add_(self.bias)
        self.buffer.copy_(F.gelu(self.buffer))
        return self.buffer
