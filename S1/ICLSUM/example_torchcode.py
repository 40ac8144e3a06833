"""Reference: the sum of all 2^26 elements of x in fp32."""

import torch
from torch import nn

COUNT = 1 << 26


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x)


def get_inputs() -> list:
    # All positive: the sum of a symmetric sample is near zero, where a relative tolerance means nothing.
    return [torch.rand(COUNT)]


def get_init_inputs() -> list:
    return []


def get_work() -> dict:
    """One addition an element; every element of 4 B is read once, one float is written."""
    return {"flops": {"fp32": COUNT}, "bytes": 4 * COUNT + 4}
