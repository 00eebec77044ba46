"""Everything but the last row, which keeps whatever the memory held."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "stale memory"
EXPECT = ("wrong_value", "unwritten_output", "nondeterministic")
CATALOGUE = "rigor 2"


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        y[:-1] = torch.nn.functional.gelu(x[:-1])
        return y
