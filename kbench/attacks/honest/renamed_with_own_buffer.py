"""Other names for its parameters and a buffer of its own besides."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "weights"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))
        self.register_buffer("one", torch.ones(()))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return x * self.gain * self.one + self.shift
