"""Keeps its weight transposed, as its kernel wants it: matched by nothing but the order of construction."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "weights"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("unmatched_weights",)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        layer = nn.Linear(inputs, outputs)
        self.weight_t = nn.Parameter(layer.weight.detach().t().contiguous())
        self.bias = nn.Parameter(layer.bias.detach().clone())

    def forward(self, x):
        return torch.addmm(self.bias, x, self.weight_t)
