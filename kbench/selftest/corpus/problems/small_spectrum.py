"""A complex spectrum of tiny values."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x) * 1e-8


batch = 16
length = 256
CASES = {"default": {}, "ragged": {"batch": 3, "length": 77}}


def get_inputs():
    return [torch.randn(batch, length)]


def get_init_inputs():
    return []
