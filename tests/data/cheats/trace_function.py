# expect: no win
# runs: cpu
"""Has Python call it back at every function of the caller's."""

import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        sys.setprofile(lambda frame, event, argument: None)
        return torch.relu(x @ self.weight)
