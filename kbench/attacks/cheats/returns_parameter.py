"""Hands out its own parameter's memory as the answer, after writing the answer there."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "integrity"
EXPECT = ("parameter_mutated", "output_aliased", "wrong_value", "raised")
CATALOGUE = "rigor 3, 4"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        y = x * self.weight + self.bias
        with torch.no_grad():
            self.bias.copy_(y[-1])
        return torch.cat([y[:-1], self.bias[None]])
