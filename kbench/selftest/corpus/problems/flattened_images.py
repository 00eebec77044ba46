"""A norm over whole images, flattened by `view`: the reference raises on inputs that are not contiguous."""

import torch
from torch import nn


class Model(nn.Module):
    """Divide by the root mean square of an image, by channel weights."""

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, x):
        """(batch, channels, height, width) -> the same shape."""
        flat = x.view(x.shape[0], -1)
        root = flat.square().mean(1).add(1e-6).sqrt()
        return x / root[:, None, None, None] * self.weight[:, None, None]


batch = 4
channels = 6
height, width = 10, 12

CASES = {"default": {}, "ragged": {"batch": 3, "channels": 5, "height": 7, "width": 9}}


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels]
