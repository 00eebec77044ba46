"""Weights copied once, at the first call, and never looked at again."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "weights"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("frozen_weights",)
CATALOGUE = "harness 19"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.folded = None

    def forward(self, x):
        if self.folded is None:
            self.folded = (self.weight.detach().clone(), self.bias.detach().clone())
        weight, bias = self.folded
        return x * weight + bias
