"""The tanh approximation of GELU, off by up to half a thousandth."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "numerics"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 18"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")
