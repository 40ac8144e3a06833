# runs: cpu
"""A plain class that is called; no nn.Module."""

from torch.nn import functional as F


class ModelNew:
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def __call__(self, x):
        return F.gelu(x @ self.weight.to(x.device) + self.bias.to(x.device))
