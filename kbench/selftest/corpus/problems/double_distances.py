"""Distances between points in double precision."""

import torch
from torch import nn


class Model(nn.Module):
    """Euclidean distance of every pair."""

    def forward(self, a, b):
        """(rows, size), (columns, size) float64 -> (rows, columns) float64."""
        return (a[:, None] - b[None]).square().sum(dim=-1).sqrt()


rows = 20
columns = 30
size = 12

CASES = {"default": {}, "ragged": {"rows": 3, "columns": 5, "size": 7}}


def get_inputs():
    return [torch.rand(rows, size, dtype=torch.float64), torch.rand(columns, size, dtype=torch.float64)]


def get_init_inputs():
    return []
