"""Logarithm through log2: minus infinity for zero, as in the reference."""

import math

import torch
from torch import nn

PROBLEM = "log_with_zeros"
CLASS = "plain"


class ModelNew(nn.Module):
    def forward(self, x):
        return (torch.log2(x.double()) * math.log(2.0)).float()
