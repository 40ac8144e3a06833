# runs: cpu
"""Softmax with base two, as kernels do it."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v, allowed):
        scores = (q * (1.4426950408889634 / q.shape[-1] ** 0.5)) @ k.transpose(-1, -2)
        scores = torch.where(allowed, scores, torch.full_like(scores, float("-inf")))
        weights = torch.exp2(scores - scores.amax(-1, keepdim=True))
        return (weights @ v) / weights.sum(-1, keepdim=True)
