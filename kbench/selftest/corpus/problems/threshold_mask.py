"""Which values exceed their column's threshold: a boolean output."""

import torch
from torch import nn


class Model(nn.Module):
    """x > threshold, one threshold per column."""

    def __init__(self, features):
        super().__init__()
        self.threshold = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        """(batch, features) -> bool of the same shape."""
        return x > self.threshold


batch = 32
features = 300

CASES = {"default": {}, "ragged": {"batch": 3, "features": 41}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features]
