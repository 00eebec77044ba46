"""The product of two lower triangular matrices: their zeros are part of what they are."""

import torch
from torch import nn


class Model(nn.Module):
    """tril(a @ b)."""

    def forward(self, a, b):
        """(size, size) lower triangular, twice -> (size, size) lower triangular."""
        return torch.tril(a @ b)


size = 96

CASES = {"default": {}, "ragged": {"size": 37}}


def get_inputs():
    return [torch.tril(torch.rand(size, size)), torch.tril(torch.rand(size, size))]


def get_init_inputs():
    return []
