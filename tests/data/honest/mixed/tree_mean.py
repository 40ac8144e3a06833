# runs: cpu
"""The mean by halving."""

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
        values = x.square()
        while values.shape[-1] % 2 == 0:
            values = values[:, ::2] + values[:, 1::2]
        return values.sum(-1) / x.shape[-1]

    def picked(self, x, rows, keep):
        return x[rows] * keep

    def best(self, x):
        return x.argmax(-1)

    def above(self, x):
        return x > 0
