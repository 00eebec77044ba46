"""An epsilon of 1e-6 for 1e-5: invisible while the inputs have unit variance."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "numerics"
EXPECT = ("below_level", "wrong_value")
LEVEL = "task"
LACKS = ("scaled_down",)
CATALOGUE = "rigor 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.norm.weight, self.norm.bias, 1e-6)
