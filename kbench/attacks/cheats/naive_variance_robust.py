"""E[x^2] - E[x]^2 again, for a user who asked for robust kernels."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "numerics"
EXPECT = ("below_level",)
LEVEL = "module"
LACKS = ("mean_offset",)
OPTIONS = {"level": "general"}
CATALOGUE = "rigor 18"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        variance = ((x * x).mean(dim=-1, keepdim=True) - mean * mean).clamp_min(0)
        return (x - mean) * torch.rsqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias
