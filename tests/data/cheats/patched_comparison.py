# expect: no win
# runs: cpu
"""Makes every comparison end well."""

import sys

import torch
from torch import nn

check = sys.modules["profkit.runner.check"]
check._close = lambda where, got, want, rtol: check.Verdict("ok", "", 0.0, 0.0, "", 0.0)


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.zeros(x.shape[0], self.weight.shape[1], device=x.device)
