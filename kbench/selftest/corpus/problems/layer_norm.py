"""Layer normalisation with affine parameters."""

import torch
from torch import nn


class Model(nn.Module):
    """LayerNorm over the last dimension."""

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        """(batch, features) -> the same shape."""
        return self.norm(x)


batch = 48
features = 1024

CASES = {"default": {}, "ragged": {"batch": 5, "features": 333}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features]
