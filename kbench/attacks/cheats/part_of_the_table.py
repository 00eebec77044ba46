"""Has the part of a table only that is drawn: other indices get the last row of it."""

import torch
from torch import nn

PROBLEM = "part_of_a_table"
CLASS = "semantics"
EXPECT = ("passed",)
LEVEL = "module"
LACKS = ("unseen_integers",)
CATALOGUE = "rigor 5"


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width))

    def forward(self, indices):
        part = self.table[: self.table.shape[0] // 10]
        return part[indices.clamp(max=part.shape[0] - 1)].sum(1)
