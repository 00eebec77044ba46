"""Two-dimensional max pooling with padding: outside is minus infinity."""

import torch
from torch import nn


class Model(nn.Module):
    """MaxPool2d(3, stride=2, padding=1)."""

    def forward(self, x):
        """(batch, channels, h, w) -> (batch, channels, (h + 1) // 2, (w + 1) // 2)."""
        return torch.nn.functional.max_pool2d(x, 3, stride=2, padding=1)


batch = 2
channels = 5
height, width = 24, 31

CASES = {"default": {}, "ragged": {"batch": 1, "channels": 3, "height": 7, "width": 6}}


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return []
