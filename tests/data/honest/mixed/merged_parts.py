# runs: cpu
"""Mean and spread of parts, merged pair by pair."""

import torch
from torch import nn


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
        count, mean, spread = 0, 0.0, 0.0
        for part in x.split(64, -1):
            own = part.mean(-1, keepdim=True)
            other = (part - own).square().sum(-1, keepdim=True)
            total = count + part.shape[-1]
            shift = own - mean
            spread = spread + other + shift * shift * (count * part.shape[-1] / total)
            mean = mean + shift * (part.shape[-1] / total)
            count = total
        return (x - mean) * torch.rsqrt(spread / count + 1e-5) * self.gain

    def mean(self, x):
        return x.square().mean(-1)

    def picked(self, x, rows, keep):
        return x[rows] * keep

    def best(self, x):
        return x.argmax(-1)

    def above(self, x):
        return x > 0
