# expect: no win
# runs: cpu
"""Puts its own kernel behind an operator of torch's."""

import torch
from torch import nn

library = torch.library.Library("aten", "IMPL")
library.impl("relu", lambda x: x.clamp(0, 3), "CPU")


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(x @ self.weight)
