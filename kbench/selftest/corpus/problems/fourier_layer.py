"""The first modes of a spectrum, mixed by complex weights that begin as one."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels, modes):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, modes, dtype=torch.cfloat))

    def forward(self, x):
        spectrum = torch.fft.rfft(x)[..., : self.weight.shape[1]] * self.weight
        return torch.fft.irfft(spectrum, n=x.shape[-1])


batch = 8
channels = 8
points = 64
modes = 16
CASES = {"default": {}, "ragged": {"batch": 3, "channels": 5, "points": 40, "modes": 9}}


def get_inputs():
    return [torch.randn(batch, channels, points)]


def get_init_inputs():
    return [channels, modes]
