"""A captured graph for every address that an input was seen at: it reads what is there now."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "graphs"
DEVICES = ("cuda",)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.captured = {}

    def forward(self, x):
        key = (x.data_ptr(), x.shape, x.stride(), self.weight.data_ptr(), self.bias.data_ptr())
        if key not in self.captured:
            torch.addcmul(self.bias, x, self.weight)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = torch.addcmul(self.bias, x, self.weight)
            self.captured[key] = (graph, y)
        graph, y = self.captured[key]
        graph.replay()
        return y
