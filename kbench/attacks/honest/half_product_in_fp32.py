"""Sums in fp32 and rounds once: now and then more than a tolerance from a reference that rounds once too."""

from torch import nn

PROBLEM = "half_product"
CLASS = "precision"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x, y):
        return (x.float() @ y.float()).half()
