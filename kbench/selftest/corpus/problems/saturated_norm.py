"""A linear layer, clamped, and normalised in small groups: where all of a group is clamped, its variance is near 0."""

import torch
from torch import nn


class Model(nn.Module):
    """Linear, another bias, Hardtanh, Mish, GroupNorm."""

    def __init__(self, features, groups):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.bias = nn.Parameter(torch.randn(features))
        self.norm = nn.GroupNorm(groups, features)

    def forward(self, x):
        """(batch, features) -> the same shape."""
        return self.norm(nn.functional.mish(nn.functional.hardtanh(self.linear(x) + self.bias)))


batch = 128
features = 256
groups = 32

CASES = {"default": {}, "ragged": {"batch": 5, "features": 88, "groups": 11}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features, groups]
