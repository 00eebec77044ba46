"""Adds a number to each value of a long vector: handing over the result takes about as long as making it."""

import torch
from torch import nn


class Model(nn.Module):
    """x + 1."""

    def forward(self, x):
        """(values,) -> (values,)."""
        return x + 1


values = 1 << 24

CASES = {"default": {}, "cpu": {"values": 1 << 22}, "ragged": {"values": 10_007}}


def get_inputs():
    return [torch.randn(values)]


def get_init_inputs():
    return []
