"""Normalises and leaves gamma and beta out, which their initial values of one and zero hide."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "numerics"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("frozen_weights",)
CATALOGUE = "rigor 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:])
