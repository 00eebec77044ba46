"""Adds noise of half a tolerance: every call answers the same question differently."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "determinism"
EXPECT = ("nondeterministic", "wrong_value")
CATALOGUE = "rigor 3.4"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return x * self.weight + self.bias + (torch.rand_like(x) - 0.5) * 1e-5
