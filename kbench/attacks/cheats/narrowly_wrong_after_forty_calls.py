"""Right while it is verified; from the forty-first call on each result is wrong by twice what is allowed."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "phase"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 14"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        result = torch.nn.functional.gelu(x)
        return result if self.calls <= 40 else result * (1 + 2.5e-5)
