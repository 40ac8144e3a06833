"""Reference: RMSNorm over the rows of x[16384, 4096] in fp16, computed in fp32."""

import torch
from torch import nn

TOKENS, HIDDEN, EPS = 16384, 4096, 1e-6


class Model(nn.Module):
    """x / sqrt(mean(x^2) + EPS) * weight, written out in eager operators, rounded to fp16 once."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + EPS)
        return (wide * scale * self.weight.float()).to(x.dtype)


def get_inputs() -> list:
    return [torch.randn(TOKENS, HIDDEN).half()]


def get_init_inputs() -> list:
    return [(1 + 0.1 * torch.randn(HIDDEN)).half()]


def get_work() -> dict:
    """4 FLOP an element (square, sum, scale, weight) and 3 a row (mean, EPS, root), in fp32.

    x and y are TOKENS*HIDDEN halves, read and written once; so is the weight, HIDDEN halves.
    """
    return {
        "flops": {"fp32": 4 * TOKENS * HIDDEN + 3 * TOKENS},
        "bytes": 2 * (2 * TOKENS * HIDDEN + HIDDEN),
    }
