# runs: cpu
"""One head after the other."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v, allowed):
        out = torch.empty_like(q)
        for head in range(q.shape[1]):
            scores = torch.baddbmm(
                torch.zeros(1, 1, 1, device=q.device),
                q[:, head],
                k[:, head].transpose(-1, -2),
                beta=0,
                alpha=q.shape[-1] ** -0.5,
            )
            out[:, head] = scores.masked_fill(~allowed[:, 0], float("-inf")).softmax(-1) @ v[:, head]
        return out
