"""Sums in fp64, which the reference does not: nearer to the truth than to the reference."""

from torch import nn

PROBLEM = "sum_as_number"
CLASS = "precision"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return x.double().sum().item()
