"""Elementwise y = x * weight + bias, parameters along the last dimension."""

import torch
from torch import nn


class Model(nn.Module):
    """Scale and shift every column."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        """(batch, features) -> the same shape."""
        return x * self.weight + self.bias


batch = 64
features = 256

CASES = {"default": {}, "ragged": {"batch": 7, "features": 37}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features]
