"""Plain torch."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "plain"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.addcmul(self.bias, x, self.weight)
