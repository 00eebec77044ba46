"""Text instead of a tensor."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return "done"
