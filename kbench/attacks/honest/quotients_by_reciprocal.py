"""Multiplies by the reciprocal of the sum, which rounds once more, also where the sum is almost nothing."""

import torch
from torch import nn

PROBLEM = "row_quotients"
CLASS = "precision"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, a, b):
        d = torch.sub(a, b)
        return d * (1 / d.sum(-1, keepdim=True))
