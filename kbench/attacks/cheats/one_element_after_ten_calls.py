"""Right for ten calls, then one element of each result is off by a thousandth."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "replay"
EXPECT = ("wrong_value", "nondeterministic")
CATALOGUE = "rigor 6"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.calls = 0

    def forward(self, x):
        y = x * self.weight + self.bias
        self.calls += 1
        if self.calls > 10:
            y.view(-1)[(self.calls * 7919) % y.numel()] += 1e-3
        return y
