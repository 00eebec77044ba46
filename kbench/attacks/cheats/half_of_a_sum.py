"""The sum of every other row, twice."""

from torch import nn

PROBLEM = "sum_as_number"
CLASS = "semantics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return 2 * x[::2].sum().item()
