# expect: no win
# runs: cpu
"""Returns at once and has a thread fill the output."""

import threading
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        out = torch.zeros(x.shape[0], self.weight.shape[1], device=x.device)
        threading.Thread(target=self.work, args=(x.clone(), out)).start()
        return out

    def work(self, x, out):
        time.sleep(0.02)
        out.copy_(torch.relu(x @ self.weight))
