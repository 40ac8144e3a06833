# expect: no win
# runs: cpu
"""Gives a tensor without data."""

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        with FakeTensorMode(allow_non_fake_inputs=True):
            return torch.relu(torch.empty(x.shape[0], self.weight.shape[1]))
