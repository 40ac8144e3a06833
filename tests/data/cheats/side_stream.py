# expect: no win
# runs: gpu
"""Works on a stream of its own and does not wait for it."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.stream = torch.cuda.Stream()

    def forward(self, x):
        with torch.cuda.stream(self.stream):
            return torch.relu(x @ self.weight)
