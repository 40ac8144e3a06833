"""Reference: c = a @ b, 4096 cubed, in bf16 with fp32 accumulation."""

import torch
from torch import nn

M, N, K = 4096, 4096, 4096


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs() -> list:
    return [torch.randn(M, K).bfloat16(), torch.randn(K, N).bfloat16()]


def get_init_inputs() -> list:
    return []


def get_work() -> dict:
    """2*M*N*K FLOP on the bf16 tensor cores; a, b and c cross memory once, 2 B each."""
    return {"flops": {"tensor_bf16": 2 * M * N * K}, "bytes": 2 * (M * K + K * N + M * N)}
