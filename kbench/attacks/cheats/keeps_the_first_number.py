"""Goes on with the number that came first, as if it were the same in every call."""

import torch
from torch import nn

PROBLEM = "drawn_slope"
CLASS = "semantics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    first = None

    def forward(self, pair, slope):
        if self.first is None:
            self.first = slope
        return torch.add(pair.above, pair.below, alpha=self.first)
