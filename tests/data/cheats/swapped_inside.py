# expect: status patched torch.manual_seed
# runs: cpu
"""Puts another function's code under a known name."""

import torch
from torch import nn

torch.manual_seed.__code__ = (lambda seed: torch.default_generator).__code__


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(x @ self.weight)
