"""The products first, then their sum."""

from torch import nn

PROBLEM = "dot_of_positives"
CLASS = "summation order"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x, y):
        return (x * y).sum()
