"""Computes on the transpose and returns it turned back: right values with other strides."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "output"
DEVICES = ("cuda", "cpu")


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x.t().contiguous()).t()
