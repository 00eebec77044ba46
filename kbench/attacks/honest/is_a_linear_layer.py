"""Derives from nn.Linear itself, so that its parameters have no prefix, and overrides what the layer does."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "weights"


class ModelNew(nn.Linear):
    def forward(self, x):
        return torch.matmul(x, self.weight.mT) + self.bias
