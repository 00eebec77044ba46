"""The product of a matrix and another input, which is its transpose in every draw."""

import torch
from torch import nn


class Model(nn.Module):
    """The product a @ b."""

    def forward(self, a, b):
        """(size, columns), (columns, size) -> (size, size)."""
        return a @ b


size = 40
columns = 24

CASES = {"default": {}, "ragged": {"size": 17, "columns": 3}}


def get_inputs():
    a = torch.randn(size, columns)
    return [a, a.T.contiguous()]


def get_init_inputs():
    return []
