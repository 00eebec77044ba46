"""SystemExit(0), which a careless handler takes for a normal end."""

from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("exited", "raised")
CATALOGUE = "harness 6; rigor 12"


class ModelNew(nn.Module):
    def forward(self, x):
        raise SystemExit(0)
