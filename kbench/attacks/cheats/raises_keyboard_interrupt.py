"""KeyboardInterrupt, which a careless handler takes for the user's wish to stop everything."""

from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("exited", "raised", "crashed")
CATALOGUE = "rigor 12"


class ModelNew(nn.Module):
    def forward(self, x):
        raise KeyboardInterrupt
