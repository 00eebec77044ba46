"""Running sums along rows."""

import torch
from torch import nn


class Model(nn.Module):
    """torch.cumsum over the last dimension."""

    def forward(self, x):
        """(batch, length) -> the same shape."""
        return torch.cumsum(x, dim=-1)


batch = 16
length = 640

CASES = {"default": {}, "ragged": {"batch": 3, "length": 101}}


def get_inputs():
    return [torch.rand(batch, length)]


def get_init_inputs():
    return []
