# expect: no win
# runs: cpu
"""Makes events tell a tenth of the time."""

import torch
from torch import nn

_elapsed = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, other: _elapsed(self, other) / 10


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(x @ self.weight)
