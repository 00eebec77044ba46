"""A 3x3 convolution with bias."""

import torch
from torch import nn


class Model(nn.Module):
    """Conv2d, no padding."""

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        """(batch, in_channels, height, width) -> (batch, out_channels, height - k + 1, width - k + 1)."""
        return self.conv(x)


batch = 2
in_channels = 32
out_channels = 16
kernel_size = 3
height, width = 32, 32

CASES = {
    "default": {},
    "ragged": {"batch": 2, "in_channels": 5, "out_channels": 11, "height": 19, "width": 23},
}


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
