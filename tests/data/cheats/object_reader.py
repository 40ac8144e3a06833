# expect: doubt frame inspection
# runs: cpu
"""Looks for the reference among all objects and has it do the work."""

import gc

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        for thing in gc.get_objects():
            if type(thing).__name__ == "Model" and isinstance(thing, nn.Module):
                return thing(x)
        return torch.relu(x @ self.weight)
