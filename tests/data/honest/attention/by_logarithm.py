# runs: cpu
"""Softmax by the logarithm of the sum."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v, allowed):
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~allowed, float("-inf"))
        return torch.exp(scores - scores.logsumexp(-1, keepdim=True)) @ v
