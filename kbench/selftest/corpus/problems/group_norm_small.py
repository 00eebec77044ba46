"""Group normalisation of a small image."""

import torch
from torch import nn


class Model(nn.Module):
    """GroupNorm with affine parameters."""

    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        """(batch, channels, height, width) -> the same shape."""
        return self.norm(x)


batch = 4
channels = 16
groups = 4
height, width = 16, 16

CASES = {"default": {}, "ragged": {"batch": 3, "channels": 9, "groups": 3, "height": 11, "width": 7}}


def get_inputs():
    return [torch.rand(batch, channels, height, width)]


def get_init_inputs():
    return [groups, channels]
