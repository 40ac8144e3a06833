"""Several outputs of several types: a norm, a long mean, a gather, indices, a mask, and a number."""

import torch
from torch import nn
from torch.nn import functional as F

ROWS, LONG = 8, 40_000


class Model(nn.Module):
    def __init__(self, gain):
        super().__init__()
        self.gain = nn.Parameter(gain)

    def forward(self, x, rows, keep):
        normed = F.layer_norm(x[:, :512], (512,), self.gain)
        mean = x.square().mean(-1)
        return {
            "normed": normed,
            "mean": mean,
            "picked": x[rows] * keep,
            "best": x.argmax(-1),
            "above": x[:, :64] > 0,
            "count": int(keep.sum()),
        }


def get_inputs():
    return [torch.randn(ROWS, LONG), torch.randint(0, ROWS, (5,)), torch.rand(LONG) < 0.5]


def get_init_inputs():
    return [torch.rand(512) + 0.5]
