"""Keeps a table of its own in a buffer, which is no parameter and must not be changed by anybody."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "weights"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.register_buffer("averaging", torch.full((features, 1), 1.0 / features, dtype=torch.float64))
        self.register_buffer("scratch_counter", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x):
        wide = x.double()
        centred = wide - wide @ self.averaging
        variance = (centred * centred) @ self.averaging
        return (centred * torch.rsqrt(variance + self.norm.eps)).float() * self.norm.weight + self.norm.bias
