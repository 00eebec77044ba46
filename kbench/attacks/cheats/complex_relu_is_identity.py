"""A copy of complex inputs that happen to be positive."""

from torch import nn

PROBLEM = "complex_relu"
CLASS = "semantics"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("negated",)
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone()
