"""Keeps a copy of its weight, and makes another where the first value is a new one."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "weights"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("frozen_weights",)
CATALOGUE = "harness 19; rigor 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.kept = torch.zeros(features)

    def forward(self, x):
        if self.kept[0] != self.weight[0]:
            self.kept = self.weight.detach().clone()
        return x * self.kept + self.bias
