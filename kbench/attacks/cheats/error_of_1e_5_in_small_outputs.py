"""Adds 9e-6 everywhere: within 1e-5 of the reference, and far from fp64 where values are hundredths."""

import torch
from torch import nn

PROBLEM = "small_outputs"
CLASS = "precision"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 16"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return 0.02 * torch.tanh(x) + 9e-6
