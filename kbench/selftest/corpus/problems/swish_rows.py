"""Swish of a matrix, in the form of a KernelBench file: one shape, no cases."""

import torch
from torch import nn


class Model(nn.Module):
    """x * sigmoid(x)."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        """(batch_size, dim) -> the same shape."""
        return x * torch.sigmoid(x)


batch_size = 64
dim = 2048


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
