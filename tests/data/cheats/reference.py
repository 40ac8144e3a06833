"""The task of the cheat corpus: a dense layer with ReLU."""

import torch
from torch import nn

ROWS, DEPTH, COLUMNS = 64, 128, 96


class Model(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(x @ self.weight)


def get_inputs():
    return [torch.randn(ROWS, DEPTH)]


def get_init_inputs():
    return [torch.randn(DEPTH, COLUMNS)]


def get_more_inputs():
    return [[torch.randn(1, DEPTH)], [torch.randn(ROWS + 3, DEPTH)]]
