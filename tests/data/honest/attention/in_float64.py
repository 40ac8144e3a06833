# runs: cpu
"""More precisely than asked."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v, allowed):
        scores = q.double() @ k.double().transpose(-1, -2) / q.shape[-1] ** 0.5
        return (scores.masked_fill(~allowed, float("-inf")).softmax(-1) @ v.double()).to(q.dtype)
