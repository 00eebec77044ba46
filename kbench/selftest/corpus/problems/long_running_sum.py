"""Running sums of a long vector: one thread computes them, in tens of milliseconds."""

import torch
from torch import nn


class Model(nn.Module):
    """torch.cumsum of a vector."""

    def forward(self, x):
        """(values,) -> (values,)."""
        return torch.cumsum(x, 0)


values = 32_000_000

CASES = {"default": {}, "ragged": {"values": 10_007}}


def get_inputs():
    return [torch.rand(values)]


def get_init_inputs():
    return []
