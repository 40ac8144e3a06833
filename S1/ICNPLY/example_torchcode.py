"""Reference: a polynomial of degree 128 at 2^24 points in fp32, by Horner's rule."""

import torch
from torch import nn

COUNT, DEGREE = 1 << 24, 128


class Model(nn.Module):
    """coefficients[DEGREE + 1], the highest power first; one addcmul (a kernel) a power."""

    def __init__(self, coefficients: torch.Tensor) -> None:
        super().__init__()
        self.coefficients = nn.Parameter(coefficients)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = self.coefficients[0].expand_as(x)
        for i in range(1, DEGREE + 1):
            value = torch.addcmul(self.coefficients[i], value, x)
        return value


def get_inputs() -> list:
    # Within [-1, 1]: the powers stay bounded, and Horner's rule is stable.
    return [2 * torch.rand(COUNT) - 1]


def get_init_inputs() -> list:
    return [torch.randn(DEGREE + 1) / DEGREE**0.5]


def get_work() -> dict:
    """2 FLOP a point and power; x is read once, y written once, the coefficients read once, 4 B each."""
    return {"flops": {"fp32": 2 * DEGREE * COUNT}, "bytes": 4 * (2 * COUNT + DEGREE + 1)}
