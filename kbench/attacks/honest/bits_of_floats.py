"""Reads floats as integers and masks them by their sign: reinterpreted memory, exact results."""

import torch
from torch import nn

PROBLEM = "relu"
CLASS = "precision"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        bits = x.contiguous().view(torch.int32)
        return (bits & ~(bits >> 31)).view(torch.float32)
