"""Packs weight and bias, and again only where the weight itself has changed: stale once the bias alone does."""

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
        if self.folded is None or self.folded[0] != self.weight._version:
            self.folded = (self.weight._version, torch.stack((self.weight, self.bias)).detach())
        weight, bias = self.folded[1]
        return torch.addcmul(bias, x, weight)
