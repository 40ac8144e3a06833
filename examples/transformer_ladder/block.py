"""What all steps share: the weights of one transformer block (pre-norm, GELU), and the order of its parts."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS = 1024, 16


class Block(nn.Module):
    """y = h + mlp(norm(h)), h = x + attention(norm(x)); a step says how it computes, not what."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def block(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.out(self.heads(self.qkv(self.norm_1(x))))
        return h + self.down(functional.gelu(self.up(self.norm_2(h))))

    def heads(self, qkv: torch.Tensor) -> torch.Tensor:
        batch, length, _ = qkv.shape
        q, k, v = qkv.view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        return self.attention(q, k, v).transpose(1, 2).reshape(batch, length, WIDTH)

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """The textbook's three steps; the matrix of scores passes through memory between them."""
        scores = q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5
        return scores.softmax(-1) @ v
