# expect: caveat precision
# runs: cpu
"""Switches TF32 on for everybody."""

import torch
from torch import nn

torch.set_float32_matmul_precision("high")


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(x @ self.weight)
