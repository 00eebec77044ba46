"""Works on pieces, with more launches in a call than the device's queue holds."""

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "streams"
DEVICES = ("cuda",)
PIECES = 500


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        for given, found in zip(x.reshape(-1).chunk(PIECES), y.reshape(-1).chunk(PIECES), strict=True):
            value = given
            for _ in range(self.rounds):
                value = torch.sin(value + given)
            found.copy_(value)
        return y
