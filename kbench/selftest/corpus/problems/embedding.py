"""Rows of a table, selected by integer indices."""

import torch
from torch import nn


class Model(nn.Module):
    """nn.Embedding."""

    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Embedding(rows, width)

    def forward(self, indices):
        """(batch, length) int64 -> (batch, length, width)."""
        return self.table(indices)


rows = 211
width = 48
batch = 8
length = 33

CASES = {"default": {}, "ragged": {"rows": 17, "width": 5, "batch": 3, "length": 7}}


def get_inputs():
    return [torch.randint(0, rows, (batch, length))]


def get_init_inputs():
    return [rows, width]
