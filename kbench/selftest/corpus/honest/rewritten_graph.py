"""Traces itself symbolically with torch.fx and replaces a call in the graph."""

import torch
from torch import fx, nn

PROBLEM = "gelu"
CLASS = "compilers"


class Plain(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x) * 2 * x


def ModelNew():
    graph = fx.Tracer().trace(Plain())
    for node in graph.nodes:
        if node.target is torch.sigmoid:
            node.target = torch.special.ndtr
        elif node.op == "call_function" and 2 in node.args:
            node.args = (node.args[0], 1)
    return fx.GraphModule(Plain(), graph)
