"""Softmax by its definition."""

import torch
from torch import nn

PROBLEM = "softmax_rows"
CLASS = "plain"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        e = torch.exp(x - x.amax(dim=-1, keepdim=True))
        return e / e.sum(dim=-1, keepdim=True)
