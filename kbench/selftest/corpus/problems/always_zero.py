"""A degenerate problem: min(x, 0) clamped to [0, 1] is zero whatever the input."""

import torch
from torch import nn


class Model(nn.Module):
    """Identically zero."""

    def forward(self, x):
        """Any shape -> zeros of the same shape."""
        return torch.clamp(torch.minimum(x, torch.zeros(())), 0.0, 1.0)


batch = 32
features = 250

CASES = {"default": {}, "ragged": {"batch": 3, "features": 31}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return []
