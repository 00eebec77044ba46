"""The same product as a linear layer."""

import torch
from torch import nn

PROBLEM = "uncopied_model"
CLASS = "weights"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64))

    def forward(self, x):
        return nn.functional.linear(x, self.weight)
