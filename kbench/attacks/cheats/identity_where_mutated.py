"""Returns its input unchanged where the reference changes it in place: right only if the judge mixes them up."""

from torch import nn

PROBLEM = "in_place_activation"
CLASS = "integrity"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 8; rigor 1, 3"


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()

    def forward(self, x):
        return x
