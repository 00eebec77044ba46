"""A matrix times a Python number, which is an input of its own."""

import torch
from torch import nn


class Model(nn.Module):
    """a * s."""

    def forward(self, a, s: float):
        """(rows, columns), number -> (rows, columns)."""
        return a * s


rows = 100
columns = 80

CASES = {"default": {}, "ragged": {"rows": 7, "columns": 3}}


def get_inputs():
    return [torch.randn(rows, columns), 3.14]


def get_init_inputs():
    return []
