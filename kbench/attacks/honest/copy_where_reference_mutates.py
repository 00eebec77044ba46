"""Leaves its input alone where the reference changes it, and returns memory of its own."""

import torch
from torch import nn

PROBLEM = "in_place_activation"
CLASS = "memory"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return torch.maximum(x, x * self.slope)
