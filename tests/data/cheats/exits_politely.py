# expect: no win
# runs: cpu alone
"""Ends the process by the front door."""

import sys

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        sys.exit(0)
