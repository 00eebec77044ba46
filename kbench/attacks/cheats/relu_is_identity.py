"""A copy of the input: the inputs of this problem happen to be positive."""

from torch import nn

PROBLEM = "relu"
CLASS = "semantics"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("negated",)
CATALOGUE = "harness 23; rigor 1"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone()
