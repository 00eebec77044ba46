"""A 3x3 convolution with so many channels that cuDNN takes tensor cores for it wherever TF32 is allowed."""

import torch
from torch import nn


class Model(nn.Module):
    """Conv2d, no padding."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3)

    def forward(self, x):
        """(batch, channels, height, width) -> (batch, channels, height - 2, width - 2)."""
        return self.conv(x)


batch = 4
channels = 64
height, width = 32, 32

CASES = {"default": {}, "ragged": {"batch": 3, "channels": 48, "height": 19, "width": 23}}


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels]
