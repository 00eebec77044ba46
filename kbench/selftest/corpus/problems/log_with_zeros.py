"""Logarithm of inputs with zeros among them: minus infinity is part of the answer."""

import torch
from torch import nn


class Model(nn.Module):
    """log(x)."""

    def forward(self, x):
        """Any shape -> the same shape."""
        return torch.log(x)


batch = 32
features = 250

CASES = {"default": {}, "ragged": {"batch": 3, "features": 31}}


def get_inputs():
    x = torch.rand(batch, features)
    x[:, ::7] = 0
    return [x]


def get_init_inputs():
    return []
