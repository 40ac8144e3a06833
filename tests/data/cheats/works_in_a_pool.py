# expect: no win
# runs: cpu
"""Returns at once and has a pool made beforehand fill the output."""

import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.pool = ThreadPoolExecutor(1)
        self.pool.submit(int)

    def forward(self, x):
        out = torch.zeros(x.shape[0], self.weight.shape[1], device=x.device)
        self.pool.submit(self.work, x.clone(), out)
        return out

    def work(self, x, out):
        time.sleep(0.02)
        out.copy_(torch.relu(x @ self.weight))
