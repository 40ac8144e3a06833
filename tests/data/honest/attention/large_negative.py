# runs: cpu
"""Masks with a large negative number."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v, allowed):
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + (~allowed).float() * -1e9
        return scores.softmax(-1) @ v
