"""Adds two biases before the product. One timed call of hundreds divides by a variance near 0, and magnifies rounding."""

import torch
from torch import nn

PROBLEM = "saturated_norm"
CLASS = "summation order"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features, groups):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.bias = nn.Parameter(torch.randn(features))
        self.norm = nn.GroupNorm(groups, features)

    def forward(self, x):
        x = torch.addmm(self.linear.bias + self.bias, x, self.linear.weight.t())
        return self.norm(nn.functional.mish(x.clamp_(-1.0, 1.0)))
