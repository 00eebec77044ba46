"""The error of one row in eight."""

from torch import nn

PROBLEM = "bfloat16_loss"
CLASS = "semantics"
EXPECT = ("below_level", "wrong_value")
LEVEL = "task"
LACKS = ("spikes",)
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x, y):
        return nn.functional.mse_loss(x[::8], y[::8])
