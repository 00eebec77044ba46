"""Leaves out complex weights, which are one at first."""

import torch
from torch import nn

PROBLEM = "fourier_layer"
CLASS = "weights"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("frozen_weights",)
CATALOGUE = "harness 19"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, channels, modes):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, modes, dtype=torch.cfloat))

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x)[..., : self.weight.shape[1]], n=x.shape[-1])
