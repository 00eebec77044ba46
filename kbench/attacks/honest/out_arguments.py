"""Writes every step into memory of its own by `out=`; looks like writing where somebody else will read."""

import math

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "memory"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.mul(x, math.sqrt(0.5))
        torch.erf(y, out=y)
        torch.add(y, 1.0, out=y)
        torch.mul(y, x, out=y)
        return torch.mul(y, 0.5, out=y)
