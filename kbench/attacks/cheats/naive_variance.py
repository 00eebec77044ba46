"""E[x^2] - E[x]^2 in single precision: right on centred data, noise once the mean is many deviations away."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "numerics"
LEVEL = "module"
LACKS = ("mean_offset",)
CATALOGUE = "rigor 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        variance = ((x * x).mean(dim=-1, keepdim=True) - mean * mean).clamp_min(0)
        return (x - mean) * torch.rsqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias
