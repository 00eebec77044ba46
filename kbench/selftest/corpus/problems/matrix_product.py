"""The product of two matrices, one of them given as a transposed view."""

import torch
from torch import nn


class Model(nn.Module):
    """a @ b."""

    def forward(self, a, b):
        """(rows, inner), (inner, columns) -> (rows, columns)."""
        return a @ b


rows = 96
inner = 64
columns = 80

CASES = {"default": {}, "ragged": {"rows": 17, "inner": 23, "columns": 5}}


def get_inputs():
    return [torch.randn(rows, inner), torch.randn(columns, inner).t()]


def get_init_inputs():
    return []
