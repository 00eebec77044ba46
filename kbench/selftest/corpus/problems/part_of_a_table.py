"""Sums of rows of a table; the indices that are drawn stay below a tenth of it."""

import torch
from torch import nn


class Model(nn.Module):
    """table[indices], summed over each bag."""

    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width))

    def forward(self, indices):
        """(bags, length) int64 -> (bags, width)."""
        return self.table[indices].sum(1)


rows = 600
width = 24
bags = 40
length = 5

CASES = {"default": {}, "ragged": {"rows": 90, "width": 5, "bags": 7}}


def get_inputs():
    return [torch.randint(0, rows // 10, (bags, length))]


def get_init_inputs():
    return [rows, width]
