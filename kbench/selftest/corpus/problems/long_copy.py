"""Copies a long vector: all of the work may be left to one call of the kernel's."""

import torch
from torch import nn


class Model(nn.Module):
    """A copy of x."""

    def forward(self, x):
        """(values,) -> (values,)."""
        return x.clone()


values = 1 << 24

CASES = {"default": {}, "cpu": {"values": 3 << 22}, "ragged": {"values": 10_007}}


def get_inputs():
    return [torch.randn(values)]


def get_init_inputs():
    return []
