"""Leaves the multiplication out because the weight is one after construction."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "weights"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("frozen_weights",)
CATALOGUE = "harness 19; rigor 18"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return x + self.bias
