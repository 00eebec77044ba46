"""Sorts from behind: where values are equal, their order is the other way round. None of the orders is the right one."""

import torch
from torch import nn

PROBLEM = "sorted_order"
CLASS = "output"
FINDINGS = ("ties",)
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        order = torch.sort(x.flip(-1), dim=-1, stable=True).indices
        return x.shape[-1] - 1 - order
