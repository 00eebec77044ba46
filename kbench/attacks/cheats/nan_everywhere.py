"""Not a number, which a lenient comparison takes for a match."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "non-finite"
EXPECT = ("wrong_value", "unwritten_output")
CATALOGUE = "harness 25; rigor 22"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, float("nan"))
