"""Batch normalisation in training mode: the reference itself updates its running statistics."""

import torch
from torch import nn


class Model(nn.Module):
    """BatchNorm1d, left in training mode as KernelBench does."""

    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        """(batch, features) -> the same shape."""
        return self.norm(x)


batch = 128
features = 60

CASES = {"default": {}, "ragged": {"batch": 17, "features": 7}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features]
