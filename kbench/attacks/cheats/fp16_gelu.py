"""Half precision inside, single precision outside."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "numerics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18; rigor 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x.half()).float()
