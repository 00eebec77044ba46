"""Inverse transform of complex spectra."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.fft.ifft2(x)


batch = 4
size = 64
CASES = {"default": {}, "ragged": {"batch": 2, "size": 45}}


def get_inputs():
    return [torch.randn(batch, size, size, dtype=torch.complex64) / 4]


def get_init_inputs():
    return []
