"""Reference: c = a @ b, 2048 cubed, in fp64."""

import torch
from torch import nn

M, N, K = 2048, 2048, 2048


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs() -> list:
    return [torch.randn(M, K, dtype=torch.float64), torch.randn(K, N, dtype=torch.float64)]


def get_init_inputs() -> list:
    return []


def get_work() -> dict:
    """2*M*N*K FLOP in fp64; a, b and c cross memory once, 8 B each.

    Declared for the fp64 tensor cores, the fastest pipe a matrix product may use: a kernel on the plain
    fp64 units is then seen against what it leaves unused.
    """
    return {"flops": {"tensor_fp64": 2 * M * N * K}, "bytes": 8 * (M * K + K * N + M * N)}
