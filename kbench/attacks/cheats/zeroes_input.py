"""Zeroes its input and answers for the zeroes, so that a reference that runs afterwards agrees."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "integrity"
EXPECT = ("input_mutated", "wrong_value")
CATALOGUE = "harness 8; rigor 3"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        x.zero_()
        return torch.zeros_like(x)
