"""Returns its input after clamping it in place: right values, another's memory."""

from torch import nn

PROBLEM = "relu"
CLASS = "integrity"
EXPECT = ("input_mutated", "output_aliased")
CATALOGUE = "harness 8; rigor 3, 4"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clamp_(min=0)
