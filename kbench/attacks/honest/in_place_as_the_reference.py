"""Changes its input and returns it, because the reference does exactly that."""

import torch
from torch import nn

PROBLEM = "in_place_activation"
CLASS = "memory"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return torch.where(x > 0, x, x * self.slope, out=x)
