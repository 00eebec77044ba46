"""tanh of normally distributed values."""

import torch
from torch import nn


class Model(nn.Module):
    """tanh(x)."""

    def forward(self, x):
        """Any shape -> the same shape."""
        return torch.tanh(x)


batch = 32
features = 500

CASES = {"default": {}, "ragged": {"batch": 3, "features": 301}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return []
