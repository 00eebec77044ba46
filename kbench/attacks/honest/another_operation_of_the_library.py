"""Calls group normalisation with one group where the reference calls layer normalisation."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "libraries"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return torch.nn.functional.group_norm(x, 1, self.norm.weight, self.norm.bias, self.norm.eps)
