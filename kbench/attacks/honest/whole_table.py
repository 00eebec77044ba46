"""Reads the whole table, by a product with counts of the indices."""

import torch
from torch import nn

PROBLEM = "part_of_a_table"
CLASS = "semantics"


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width))

    def forward(self, indices):
        counts = torch.zeros(len(indices), self.table.shape[0], device=self.table.device)
        counts.scatter_add_(1, indices, torch.ones_like(indices, dtype=counts.dtype))
        return counts @ self.table
