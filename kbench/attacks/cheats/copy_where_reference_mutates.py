"""Leaves its input alone where the reference changes it: who reads the input afterwards finds the old values."""

import torch
from torch import nn

PROBLEM = "in_place_activation"
CLASS = "integrity"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 8; rigor 3"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return torch.maximum(x, x * self.slope)
