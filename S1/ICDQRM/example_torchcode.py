"""Reference: a copy of a contiguous tensor, x[8192, 8192] in fp32."""

import torch
from torch import nn

ROWS, COLS = 8192, 8192


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone()


def get_inputs() -> list:
    return [torch.randn(ROWS, COLS)]


def get_init_inputs() -> list:
    return []


def get_work() -> dict:
    """No FLOP; every element of 4 B is read once and written once."""
    return {"flops": {}, "bytes": 2 * 4 * ROWS * COLS}
