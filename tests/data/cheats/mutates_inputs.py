# expect: no win
# runs: cpu
"""Works in the memory of its input."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        x.clamp_(min=-3.0)
        return torch.relu(x @ self.weight)
