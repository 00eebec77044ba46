"""Renames its parameters and adds a buffer, so that neither names nor order match; weights are folded once."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "weights"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("*_weights",)
CATALOGUE = "harness 19"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.a = nn.Parameter(torch.ones(features))
        self.b = nn.Parameter(torch.zeros(features))
        self.register_buffer("spoiler", torch.zeros(3))

    def forward(self, x):
        return x.clone()
