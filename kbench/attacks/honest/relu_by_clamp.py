"""ReLU by clamp."""

from torch import nn

PROBLEM = "relu"
CLASS = "plain"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clamp(min=0)
