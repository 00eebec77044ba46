"""A transposition that the reference answers with a view of its input."""

import torch
from torch import nn


class Model(nn.Module):
    """x transposed, not copied."""

    def forward(self, x):
        """(batch, rows, columns) -> (batch, columns, rows)."""
        return x.transpose(1, 2)


batch = 4
rows = 48
columns = 65

CASES = {"default": {}, "ragged": {"batch": 3, "rows": 5, "columns": 7}}


def get_inputs():
    return [torch.randn(batch, rows, columns)]


def get_init_inputs():
    return []
