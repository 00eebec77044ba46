"""The spectrum of real signals: complex numbers as output."""

import torch
from torch import nn


class Model(nn.Module):
    """torch.fft.rfft over the last dimension."""

    def forward(self, x):
        """(batch, length) -> (batch, length // 2 + 1) complex64."""
        return torch.fft.rfft(x)


batch = 8
length = 256

CASES = {"default": {}, "ragged": {"batch": 3, "length": 45}}


def get_inputs():
    return [torch.randn(batch, length)]


def get_init_inputs():
    return []
