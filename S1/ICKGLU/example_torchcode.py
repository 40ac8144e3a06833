"""Reference: y = gelu(x + bias) with the exact (erf) GELU, x[8192, 8192] and bias[8192] in fp32."""

import torch
from torch import nn

ROWS, COLS = 8192, 8192


class Model(nn.Module):
    def __init__(self, bias: torch.Tensor) -> None:
        super().__init__()
        self.bias = nn.Parameter(bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x + self.bias)


def get_inputs() -> list:
    return [torch.randn(ROWS, COLS)]


def get_init_inputs() -> list:
    return [torch.randn(COLS)]


def get_work() -> dict:
    """6 FLOP an element: v = x + bias, then v * 0.5 * (1 + erf(v * sqrt(0.5))) with erf counted as one.

    x is read once and y written once, ROWS*COLS elements of 4 B; the bias, COLS elements, is read once.
    """
    return {"flops": {"fp32": 6 * ROWS * COLS}, "bytes": 4 * (2 * ROWS * COLS + COLS)}
