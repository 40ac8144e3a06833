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
    """No FLOP. The contiguous tensor in between is part of the task: written once and read once.

    A strided side costs STEP times its elements: DRAM moves sectors of 32 B, and each holds some of them.
    """
    return {"flops": {}, "bytes": 4 * ROWS * COLS * (2 + 2 * STEP)}
