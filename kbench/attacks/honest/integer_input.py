"""Rows of a table by index_select."""

import torch
from torch import nn

PROBLEM = "embedding"
CLASS = "input"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width))

    def forward(self, indices):
        return self.table.index_select(0, indices.reshape(-1)).reshape(*indices.shape, -1)
