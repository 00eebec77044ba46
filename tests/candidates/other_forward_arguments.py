"""Wants an argument more in forward."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, scale):
        return x * scale
