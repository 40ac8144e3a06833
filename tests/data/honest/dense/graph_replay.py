# runs: gpu
"""Replays a CUDA graph over buffers of its own, into which every input is copied."""

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)
        self.graphs = {}

    def forward(self, x):
        key = x.shape[0]
        if key not in self.graphs:
            self.graphs[key] = self.capture(x)
        graph, given, answer = self.graphs[key]
        given.copy_(x)
        graph.replay()
        return answer.clone()

    def capture(self, x):
        given = x.clone()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            F.gelu(torch.addmm(self.bias, given, self.weight))
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            answer = F.gelu(torch.addmm(self.bias, given, self.weight))
        return graph, given, answer
