"""Memory that nobody wrote, in the hope that the allocator hands out the reference's result."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "stale memory"
EXPECT = ("wrong_value", "unwritten_output", "nondeterministic")
CATALOGUE = "harness 9; rigor 2"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.empty_like(x)
