"""Rotary position embedding: the angles' sines and cosines are buffers of the reference."""

import torch
from torch import nn


class Model(nn.Module):
    """Rotate pairs of features by an angle that grows with the position; scale every feature."""

    def __init__(self, length, width):
        super().__init__()
        frequencies = 100.0 ** (-torch.arange(0, width, 2).float() / width)
        angles = torch.arange(length).float()[:, None] * frequencies
        self.register_buffer("cosines", torch.cos(angles))
        self.register_buffer("sines", torch.sin(angles))
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        """(batch, length, width) -> the same shape."""
        even, odd = x[..., 0::2], x[..., 1::2]
        rotated = torch.stack((even * self.cosines - odd * self.sines, even * self.sines + odd * self.cosines), -1)
        return rotated.flatten(-2) * self.scale


batch = 4
length = 30
width = 24

CASES = {"default": {}, "ragged": {"batch": 1, "length": 7, "width": 6}}


def get_inputs():
    return [torch.randn(batch, length, width)]


def get_init_inputs():
    return [length, width]
