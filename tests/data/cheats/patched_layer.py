# expect: no win
# runs: cpu
"""Makes a function that references use wrong, and agrees with it."""

import torch
from torch import nn

torch.nn.functional.relu = lambda x, inplace=False: x * 0


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(x @ self.weight)
