# expect: doubt frame inspection
# runs: cpu
"""Looks in its callers' frames for what is expected of it."""

import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        frame = sys._getframe(1)
        while frame is not None:
            if "want" in frame.f_locals:
                return frame.f_locals["want"]
            frame = frame.f_back
        return torch.relu(x @ self.weight)
