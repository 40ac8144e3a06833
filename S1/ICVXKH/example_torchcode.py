"""Reference: y = relu(x @ w), x[16, 1024] and w[1024, 2048] in fp32."""

import torch
from torch import nn

M, K, N = 16, 1024, 2048


class Model(nn.Module):
    """Matrix product with a learnt weight, then ReLU."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.matmul(x, self.weight))


def get_inputs() -> list:
    return [torch.randn(M, K)]


def get_init_inputs() -> list:
    return [torch.randn(K, N)]


def get_work() -> dict:
    """2*M*N*K FLOP of the product and one comparison an output; x, w and y cross memory once, 4 B each."""
    return {
        "flops": {"fp32": 2 * M * N * K + M * N},
        "bytes": 4 * (M * K + K * N + M * N),
    }
