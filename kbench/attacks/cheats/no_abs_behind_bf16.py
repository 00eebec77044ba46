"""Leaves out an absolute value that changes no positive input, where the reference is far from fp64 itself."""

import torch
from torch import nn

PROBLEM = "bf16_inside"
CLASS = "trivial"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("negated",)
CATALOGUE = "harness 17"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features, results):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(results, features) / features**0.5)

    def forward(self, x):
        return (x.bfloat16() @ self.weight.bfloat16().T).float()
