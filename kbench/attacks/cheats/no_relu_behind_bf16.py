"""Leaves out a relu that changes no positive input, where the reference's own error is far above 1e-5."""

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
