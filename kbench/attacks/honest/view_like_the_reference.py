"""A view of its input, which is what the reference answers too."""

from torch import nn

PROBLEM = "transpose_view"
CLASS = "output"


class ModelNew(nn.Module):
    def forward(self, x):
        return x.mT
