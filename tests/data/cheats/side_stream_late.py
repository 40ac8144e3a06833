# expect: no win
# runs: gpu
"""Takes over from the caller's stream and does not hand back."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.stream = torch.cuda.Stream()

    def forward(self, x):
        out = torch.empty(x.shape[0], self.weight.shape[1], device=x.device)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(2_000_000)
            out.copy_(torch.relu(x @ self.weight))
        return out
