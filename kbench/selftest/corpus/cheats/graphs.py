"""CUDA graphs that replay on stale inputs."""

import torch
from torch import nn

CLASS = "graphs"


class graph_of_first_address(nn.Module):
    """Captures a graph that reads the first call's input, wherever later inputs lie."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "nondeterministic", "unwritten_output")
    DEVICES = ("cuda",)
    CATALOGUE = "harness 12; rigor 5"

    def __init__(self):
        super().__init__()
        self.captured = {}

    def forward(self, x):
        key = (x.shape, x.stride())
        if key not in self.captured:
            torch.nn.functional.gelu(x)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = torch.nn.functional.gelu(x)
            self.captured[key] = (graph, x, y)
        graph, _, y = self.captured[key]
        graph.replay()
        return y.clone()


class stale_graph(nn.Module):
    """Captures a graph at the first call and replays it for every input."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "nondeterministic", "unwritten_output")
    DEVICES = ("cuda",)
    CATALOGUE = "harness 12; rigor 5"

    def __init__(self):
        super().__init__()
        self.captured = {}

    def forward(self, x):
        if x.shape not in self.captured:
            static = x.clone()
            torch.nn.functional.gelu(static)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = torch.nn.functional.gelu(static)
            self.captured[x.shape] = (graph, static, y)
        graph, _, y = self.captured[x.shape]
        graph.replay()
        return y
