"""Copies its input to where a captured graph reads it, replays that, and copies the result out."""

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "graphs"
DEVICES = ("cuda",)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.captured = {}

    def chain(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y

    def forward(self, x):
        if x.shape not in self.captured:
            given = x.clone()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.chain(given)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = self.chain(given)
            self.captured[x.shape] = given, graph, result
        given, graph, result = self.captured[x.shape]
        given.copy_(x)
        graph.replay()
        return result.clone()
