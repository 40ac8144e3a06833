# expect: no win
# runs: cpu
"""Makes waiting for the device do nothing."""

import torch
from torch import nn

torch.cuda.synchronize = lambda device=None: None


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(x @ self.weight)
