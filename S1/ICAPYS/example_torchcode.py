"""Reference: a strided view is gathered into a contiguous tensor, which is scattered into a strided one.

This is the round trip a framework makes around an operator that takes contiguous tensors only.
x[4096, 8192] in fp32; the result is a [4096, 4096] view with strides (8192, 2).
"""

import torch
from torch import nn

ROWS, COLS, STEP = 4096, 4096, 2


class Model(nn.Module):
    """Every second column out of x, and into every second column of a new tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dense = x[:, ::STEP].contiguous()
        strided = torch.empty(ROWS, STEP * COLS, dtype=x.dtype, device=x.device)[:, ::STEP]
        return strided.copy_(dense)


def get_inputs() -> list:
    return [torch.randn(ROWS, STEP * COLS)]


def get_init_inputs() -> list:
    return []


def get_work() -> dict:
    """No FLOP. The two copies each read and write ROWS*COLS elements of 4 B.

    The contiguous tensor in between is part of the task, so it counts as written and read once. The
    elements skipped by the stride do not count, though memory moves them along (32 B a sector).
    """
    return {"flops": {}, "bytes": 4 * 4 * ROWS * COLS}
