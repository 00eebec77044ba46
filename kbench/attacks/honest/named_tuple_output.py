"""A named tuple of its own where the reference returns a plain one."""

from typing import NamedTuple

import torch
from torch import nn

PROBLEM = "top_values"
CLASS = "output"
SPEED = "fast"


class Top(NamedTuple):
    values: torch.Tensor
    indices: torch.Tensor


class ModelNew(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        values, order = torch.sort(x, dim=-1, descending=True, stable=True)
        return Top(indices=order[:, : self.count], values=values[:, : self.count].clone())
