"""Takes GELU by tanh, which the usual weights hide: where they put it, it is zero either way."""

import torch
from torch import nn

PROBLEM = "saturated_gelu"
CLASS = "weights"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("small_weights",)
CATALOGUE = "rigor 18"


class ModelNew(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, width) / features**0.5)
        self.shift = nn.Parameter(1.0 + torch.rand(width))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        sums = -(x @ self.weight + self.shift).abs().sum(-1, keepdim=True)
        return torch.nn.functional.gelu(sums, approximate="tanh") + self.bias
