# expect: no win
# runs: gpu
"""Works on a stream of its own, unwaited for, once many calls were made behind a held queue."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.held, self.aside = 0, torch.cuda.Stream()

    def forward(self, x):
        if torch.cuda.current_stream().query():
            return torch.relu(x @ self.weight)
        self.held += 1
        if self.held < 20:
            return torch.relu(x @ self.weight)
        y = torch.empty(x.shape[0], self.weight.shape[1], device=x.device)
        with torch.cuda.stream(self.aside):
            y.copy_(torch.relu(x @ self.weight))
        return y
