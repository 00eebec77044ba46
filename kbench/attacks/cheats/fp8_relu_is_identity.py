"""Doubles 8-bit inputs that happen to be positive."""

from torch import nn

PROBLEM = "fp8_relu"
CLASS = "semantics"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("negated",)
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return 2 * x.float()
