"""Wants constructor arguments that the problem does not give."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, groups):
        super().__init__()
        self.features = features

    def forward(self, x):
        return x
