"""Sorts by half-precision keys: values that are near one another, and not equal, come in the wrong order."""

import torch
from torch import nn

PROBLEM = "sorted_order"
CLASS = "numerics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.argsort(x.bfloat16().float(), dim=-1)
