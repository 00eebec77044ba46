"""Scale and shift of long vectors in one kernel: bound by memory, half of the traffic is parameters."""

import torch
from torch import nn


class Model(nn.Module):
    """x * weight + bias in one pass."""

    def __init__(self, values):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(values))
        self.bias = nn.Parameter(torch.rand(values))

    def forward(self, x):
        """(values,) -> (values,)."""
        return torch.addcmul(self.bias, x, self.weight)


values = 8_000_000

CASES = {"default": {}, "cpu": {"values": 400_000}, "ragged": {"values": 10_007}}


def get_inputs():
    return [torch.randn(values)]


def get_init_inputs():
    return [values]
