"""Reference: one product of vectors, ordered by a host that is busy with something else."""

import torch
from torch import nn


class Model(nn.Module):
    """y = 2 x, after half a millisecond of Python."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = 0
        for k in range(20_000):
            total += k & 1
        return x * (2.0 if total else 1.0)


def get_inputs() -> list:
    return [torch.randn(1 << 25)]


def get_init_inputs() -> list:
    return []


def get_work() -> dict:
    return {"flops": {"fp32": 1 << 25}, "bytes": 8 * (1 << 25)}
