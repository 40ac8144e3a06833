"""Reference: 12 times "scale, then shift" on x[4096] in fp32: 24 operators, 24 kernel launches."""

import torch
from torch import nn

COUNT, ROUNDS = 4096, 12


class Model(nn.Module):
    """factors[ROUNDS, 2] holds the scale and the shift of each round."""

    def __init__(self, factors: torch.Tensor) -> None:
        super().__init__()
        self.factors = nn.Parameter(factors)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(ROUNDS):
            x = x * self.factors[i, 0]
            x = x + self.factors[i, 1]
        return x


def get_inputs() -> list:
    return [torch.randn(COUNT)]


def get_init_inputs() -> list:
    scales = 0.9 + 0.2 * torch.rand(ROUNDS)
    shifts = torch.randn(ROUNDS)
    return [torch.stack([scales, shifts], dim=1)]


def get_work() -> dict:
    """2 FLOP an element and round; x is read once, y written once, the factors read once, 4 B each."""
    return {"flops": {"fp32": 2 * ROUNDS * COUNT}, "bytes": 4 * (2 * COUNT + 2 * ROUNDS)}
