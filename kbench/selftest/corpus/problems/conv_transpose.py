"""A transposed convolution with stride two."""

import torch
from torch import nn


class Model(nn.Module):
    """ConvTranspose2d, no padding."""

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=2)

    def forward(self, x):
        """(batch, in_channels, h, w) -> (batch, out_channels, 2 h + k - 2, 2 w + k - 2)."""
        return self.up(x)


batch = 2
in_channels = 6
out_channels = 5
kernel_size = 3
height, width = 14, 10

CASES = {"default": {}, "ragged": {"batch": 1, "in_channels": 3, "out_channels": 2, "height": 5, "width": 7}}


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
