"""(x_hat + beta) * gamma: the same thing while gamma is one or beta is zero."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "numerics"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("frozen_weights",)
CATALOGUE = "rigor 18"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        y = torch.nn.functional.layer_norm(x, x.shape[-1:], eps=self.norm.eps)
        return (y + self.norm.bias) * self.norm.weight
