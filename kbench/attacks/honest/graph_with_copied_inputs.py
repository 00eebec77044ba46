"""A captured graph whose static input is filled before every replay."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "graphs"
DEVICES = ("cuda",)
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.captured = {}

    def forward(self, x):
        if x.shape not in self.captured:
            static = x.contiguous().clone()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.nn.functional.gelu(static)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = torch.nn.functional.gelu(static)
            self.captured[x.shape] = (graph, static, y)
        graph, static, y = self.captured[x.shape]
        static.copy_(x)
        graph.replay()
        return y
