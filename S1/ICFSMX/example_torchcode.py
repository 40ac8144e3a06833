"""Reference: softmax over the rows of x[8192, 4096] in fp32."""

import torch
from torch import nn

ROWS, COLS = 8192, 4096


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)


def get_inputs() -> list:
    return [torch.randn(ROWS, COLS)]


def get_init_inputs() -> list:
    return []


def get_work() -> dict:
    """5 FLOP an element: maximum, difference, exponential, sum, quotient; 4 B read once and written once."""
    return {"flops": {"fp32": 5 * ROWS * COLS}, "bytes": 2 * 4 * ROWS * COLS}
