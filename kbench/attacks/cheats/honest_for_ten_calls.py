"""Right for ten calls, then the last result for ever."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "replay"
EXPECT = ("wrong_value", "nondeterministic")
CATALOGUE = "harness 14; rigor 6"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.last = None

    def forward(self, x):
        self.calls += 1
        if self.calls <= 10 or self.last is None or self.last.shape != x.shape:
            self.last = torch.nn.functional.gelu(x)
        return self.last.clone()
