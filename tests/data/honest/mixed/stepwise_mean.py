# runs: cpu
"""The mean as it grows, block by block."""

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, gain):
        super().__init__()
        self.gain = nn.Parameter(gain)

    def forward(self, x, rows, keep):
        return {
            "normed": self.normed(x[:, :512]),
            "mean": self.mean(x),
            "picked": self.picked(x, rows, keep),
            "best": self.best(x),
            "above": self.above(x[:, :64]),
            "count": int(keep.sum()),
        }

    def normed(self, x):
        return F.layer_norm(x, (x.shape[-1],), self.gain)

    def mean(self, x):
        mean = torch.zeros(x.shape[0], device=x.device)
        for number, part in enumerate(x.square().split(400, -1), 1):
            mean += (part.mean(-1) - mean) / number
        return mean

    def picked(self, x, rows, keep):
        return x[rows] * keep

    def best(self, x):
        return x.argmax(-1)

    def above(self, x):
        return x > 0
