"""Leaves with status 3 when imported."""

import sys

from torch import nn

sys.exit(3)


class ModelNew(nn.Module):
    def forward(self, x):
        return x
