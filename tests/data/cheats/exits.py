# expect: no win
# runs: cpu alone
"""Ends the process as if all had gone well."""

import os

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        os._exit(0)
