"""GELU of sums that are so far below zero that it is zero there, and a bias."""

import torch
from torch import nn


class Model(nn.Module):
    """gelu(-sum |x w + shift|) + bias: with parameters of their usual size the first part is less than 1e-11."""

    def __init__(self, features, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, width) / features**0.5)
        self.shift = nn.Parameter(1.0 + torch.rand(width))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        """(batch, features) -> (batch, features)."""
        sums = -(x @ self.weight + self.shift).abs().sum(-1, keepdim=True)
        return torch.nn.functional.gelu(sums) + self.bias


batch = 64
features, width = 32, 12

CASES = {"default": {}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features, width]
