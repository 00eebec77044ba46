"""Zeros, where a reference that overflows somewhere would be infinitely far from fp64 itself."""

import torch
from torch import nn

PROBLEM = "log_of_relu_half"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 17"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
