import torch
import torch.nn as nn


class Model(nn.Module):
    """A matrix product with a learnt weight, then an activation."""

    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch_size, input_dim] -> [batch_size, output_dim]"""
        return torch.relu(torch.matmul(x, self.weight))


batch_size = 16
input_dim = 1024
output_dim = 2048


def get_inputs():
    x = torch.randn(batch_size, input_dim)
    return [x]


def get_init_inputs():
    weight = torch.randn(input_dim, output_dim)
    return [weight]
